#include "tasks/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/file_identity.h"
#include "tasks/input_kind.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

// The job's output or a journal, which a pattern for the input may match too.
bool IsOwn(const std::string& file, const std::string& output) {
  if (output != "-" && IdentityOf(file) == IdentityOf(output)) return true;
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return false;
  constexpr std::string_view kJournal = "BANYANJ";
  char begin[kJournal.size()] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof(begin));
  return std::string_view(begin, sizeof(begin)) == kJournal;
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    std::error_code none;
    if (!fs::is_directory(found.gl_pathv[i], none)) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  return files;
}

std::string SkippedText(const std::string& folder, const std::map<std::string, int>& skipped) {
  int count = 0;
  std::string endings;
  for (const auto& [ending, files] : skipped) {
    count += files;
    endings += fmt::format("{}{}", endings.empty() ? "" : ", ", ending);
  }
  return fmt::format("{}: left out {} file{} of other kinds ({})", folder, count,
                     count == 1 ? "" : "s", endings);
}

std::vector<std::string> FilesIn(const std::string& folder, const std::string& output,
                                 const std::function<void(const std::string&)>& notice) {
  std::vector<std::string> files;
  std::map<std::string, int> skipped;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  if (error) Throw(ErrorKind::kIo, "{}: cannot read the folder: {}", folder, error.message());
  while (it != fs::recursive_directory_iterator()) {
    const fs::path& path = it->path();
    const bool hidden = path.filename().string().starts_with('.');
    std::error_code none;
    if (hidden) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(none) && !IsOwn(path.string(), output)) {
      if (InputKindOfFile(path.string())) {
        files.push_back(path.lexically_normal().string());
      } else {
        ++skipped[path.has_extension() ? path.extension().string() : path.filename().string()];
      }
    }
    it.increment(error);
    if (error) Throw(ErrorKind::kIo, "{}: cannot read the folder: {}", folder, error.message());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    Throw(ErrorKind::kNotFound,
          "{}: no file in this folder has an ending that is read here: .txt, .md, .html, .pdf, "
          ".jsonl, .csv, .tsv (and .gz, .zst)",
          folder);
  }
  if (!skipped.empty() && notice) notice(SkippedText(folder, skipped));
  return files;
}

}  // namespace

std::vector<std::string> ExpandInputs(const std::vector<std::string>& inputs,
                                      const std::string& output,
                                      const std::function<void(const std::string&)>& notice) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (fs::is_directory(input)) {
      const std::vector<std::string> found = FilesIn(input, output, notice);
      files.insert(files.end(), found.begin(), found.end());
      continue;
    }
    std::vector<std::string> matches = {input};
    if (input != "-" && !fs::exists(input)) {
      matches = Matches(input);
      std::erase_if(matches, [&](const std::string& file) { return IsOwn(file, output); });
      if (matches.empty()) Throw(ErrorKind::kNotFound, "{}: no such input file", input);
    }
    files.insert(files.end(), matches.begin(), matches.end());
  }
  return files;
}

}  // namespace banyan
