#include "tasks/input/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/file_identity.h"
#include "tasks/input/input_kind.h"

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

struct FolderContents {
  std::vector<std::string> files;
  std::map<std::string, int> skipped;  // how many of each ending
};

// What cannot be listed or looked at is among the files: whoever opens it hears why.
void Search(const fs::path& folder, const std::string& output, FolderContents& found) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error) return found.files.push_back(folder.lexically_normal().string());
  for (; it != fs::directory_iterator(); it.increment(error)) {
    const fs::path& path = it->path();
    if (path.filename().string().starts_with('.')) continue;
    std::error_code unknown;
    const fs::file_status status = it->status(unknown);
    const bool readable_kind = InputKindOfFile(path.string()).has_value();
    if (!fs::exists(status)) {  // a link to nothing, or not for us to see
      if (readable_kind) found.files.push_back(path.lexically_normal().string());
    } else if (fs::is_directory(status)) {
      if (!it->is_symlink(unknown)) Search(path, output, found);
    } else if (fs::is_regular_file(status) && !IsOwn(path.string(), output)) {
      if (readable_kind) {
        found.files.push_back(path.lexically_normal().string());
      } else {
        ++found
              .skipped[path.has_extension() ? path.extension().string() : path.filename().string()];
      }
    }
  }
  if (error) found.files.push_back(folder.lexically_normal().string());
}

std::vector<std::string> FilesIn(const std::string& folder, const std::string& output,
                                 const std::function<void(const std::string&)>& notice) {
  FolderContents found;
  Search(folder, output, found);
  std::sort(found.files.begin(), found.files.end());
  if (found.files.empty()) {
    Throw(ErrorKind::kNotFound,
          "{}: no file in this folder has an ending that is read here: .txt, .md, .html, .pdf, "
          ".jsonl, .json, .csv, .tsv (and .gz, .zst)",
          folder);
  }
  if (!found.skipped.empty() && notice) notice(SkippedText(folder, found.skipped));
  return found.files;
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
