// Names, folders and patterns expanded; the kind of a file by its name or its first bytes.
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/files.h"
#include "documents/foreign_format.h"
#include "retrieve/corpus.h"
#include "tasks/input/input_files.h"

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

constexpr size_t kMostForeign = 3;  // of a folder, that are named with what to do

struct FolderContents {
  std::vector<std::string> files;
  std::map<std::string, int> skipped;  // how many of each ending
  std::vector<std::string> foreign;    // of these, files whose format can be converted
  std::vector<std::string> links;      // that lead out of the folder
};

struct SearchedFolder {
  fs::path root;
  std::string output;  // of the job: not an input
};

// Entries that cannot be listed or examined are kept: opening them gives the reason. Links that
// lead out of the root are left out, as `rag index` does: whoever may put a file there could show
// any file of this machine.
void Search(const fs::path& folder, const SearchedFolder& searched, FolderContents& found) {
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
      if (!it->is_symlink(unknown)) Search(path, searched, found);
    } else if (fs::is_regular_file(status) && !IsOwn(path.string(), searched.output)) {
      if (readable_kind && it->is_symlink(unknown) && LeadsOut(path, searched.root)) {
        found.links.push_back(path.lexically_normal().string());
      } else if (readable_kind) {
        found.files.push_back(path.lexically_normal().string());
      } else {
        if (!ForeignAdvice(path.string()).empty()) found.foreign.push_back(path.string());
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
  Search(folder, {folder, output}, found);
  if (!found.links.empty() && notice) {
    notice(
        fmt::format("{}: left out {} link{} to files outside of it (the first: {}); name them on "
                    "the command line to read them",
                    folder, found.links.size(), found.links.size() == 1 ? "" : "s",
                    *std::ranges::min_element(found.links)));
  }
  std::sort(found.files.begin(), found.files.end());
  if (found.files.empty()) {
    Throw(ErrorKind::kNotFound,
          "{}: no file in this folder has an ending that is read here: .txt, .md, .html, .pdf, "
          ".jsonl, .json, .csv, .tsv (and .gz, .zst)",
          folder);
  }
  if (!found.skipped.empty() && notice) notice(SkippedText(folder, found.skipped));
  std::sort(found.foreign.begin(), found.foreign.end());
  if (found.foreign.size() > kMostForeign) found.foreign.resize(kMostForeign);
  for (const std::string& file : found.foreign) {
    if (notice) notice(fmt::format("{}: left out: {}", file, ForeignAdvice(file)));
  }
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

namespace {

struct Ending {
  std::string_view text;
  InputKind kind;
};

constexpr std::array kEndings = {
    Ending{".jsonl", InputKind::kJsonLines}, Ending{".ndjson", InputKind::kJsonLines},
    Ending{".json", InputKind::kJson},       Ending{".csv", InputKind::kCsv},
    Ending{".tsv", InputKind::kTsv},         Ending{".tab", InputKind::kTsv},
    Ending{".txt", InputKind::kText},        Ending{".text", InputKind::kText},
    Ending{".md", InputKind::kText},         Ending{".markdown", InputKind::kText},
    Ending{".rst", InputKind::kText},        Ending{".tex", InputKind::kText},
    Ending{".log", InputKind::kText},        Ending{".eml", InputKind::kText},
    Ending{".html", InputKind::kHtml},       Ending{".htm", InputKind::kHtml},
    Ending{".xhtml", InputKind::kHtml},      Ending{".pdf", InputKind::kPdf},
};

std::string InLowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string LowerName(std::string_view path) {
  return InLowerCase(path.substr(path.rfind('/') + 1));
}

// The first tag is one that pages begin with.
bool LooksLikeHtml(std::string_view head) {
  if (head.starts_with("<?xml")) {
    const size_t end = head.find("?>");
    if (end == std::string_view::npos) return false;
    head.remove_prefix(end + 2);
    head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  }
  constexpr size_t kLongestTag = 16;
  const std::string begin = InLowerCase(head.substr(0, kLongestTag));
  for (const std::string_view tag :
       {"<!doctype html", "<html", "<head", "<body", "<title", "<meta", "<div", "<p>", "<h1"}) {
    if (begin.starts_with(tag)) return true;
  }
  return false;
}

// The first line is an object by itself, as far as can be seen.
bool BeginsJsonLines(std::string_view head) {
  const size_t end = head.find('\n');
  if (end == std::string_view::npos) return true;
  const size_t last = head.find_last_not_of(" \t\r", end - 1);
  return head[last] == '}';
}

bool LooksLikeTable(std::string_view head, const std::vector<std::vector<std::string>>& needed,
                    char delimiter) {
  if (needed.empty() || !HasWholeCsvRow(head)) return false;
  constexpr size_t kLongestHeader = 1u << 20;
  CsvReader reader(ByteSourceOf(head, "header"), kLongestHeader,
                   delimiter == 0 ? CsvDelimiterOf(head) : delimiter);
  std::vector<std::string> names;
  if (!reader.Next(names) || names.size() < 2) return false;
  return std::ranges::all_of(needed, [&](const std::vector<std::string>& alternatives) {
    return std::ranges::any_of(alternatives, [&](const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    });
  });
}

}  // namespace

std::optional<InputKind> InputKindNamed(std::string_view word) {
  using Pair = std::pair<std::string_view, InputKind>;
  for (const auto& [name, kind] :
       {Pair("jsonl", InputKind::kJsonLines), Pair("json", InputKind::kJson),
        Pair("csv", InputKind::kCsv), Pair("tsv", InputKind::kTsv), Pair("text", InputKind::kText),
        Pair("html", InputKind::kHtml), Pair("pdf", InputKind::kPdf)}) {
    if (word == name) return kind;
  }
  return std::nullopt;
}

std::optional<InputKind> InputKindOfFile(std::string_view path) {
  std::string name = LowerName(path);
  for (const std::string_view packing : {".gz", ".zst"}) {
    if (name.ends_with(packing)) name.resize(name.size() - packing.size());
  }
  for (const Ending& ending : kEndings) {
    if (name.ends_with(ending.text)) return ending.kind;
  }
  return std::nullopt;
}

InputKind InputKindOfBytes(std::string_view head,
                           const std::vector<std::vector<std::string>>& needed, char delimiter) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  if (head.starts_with("%PDF-")) return InputKind::kPdf;
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (LooksLikeHtml(head)) return InputKind::kHtml;
  if (head.starts_with('{'))
    return BeginsJsonLines(head) ? InputKind::kJsonLines : InputKind::kJson;
  if (head.starts_with('[')) {
    const size_t next = head.find_first_not_of(" \t\r\n", 1);
    if (next != std::string_view::npos && head[next] == '{') return InputKind::kJson;
  }
  return LooksLikeTable(head, needed, delimiter) ? InputKind::kCsv : InputKind::kText;
}

bool IsDocument(InputKind kind) {
  return kind == InputKind::kText || kind == InputKind::kHtml || kind == InputKind::kPdf;
}

void RefuseForeignFormat(const std::string& path) {
  const std::string advice = ForeignAdvice(path);
  if (!advice.empty()) Throw(ErrorKind::kUsage, "{}: {}", path, advice);
}

}  // namespace banyan
