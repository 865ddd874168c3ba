// Names, folders and patterns expanded; the kind of a file by its name or its first bytes.
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/files.h"
#include "documents/folder_files.h"
#include "documents/foreign_format.h"
#include "program/near_names.h"
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

constexpr const char* kIndexFile = "index.banyan";  // its folder holds no documents
constexpr const char* kOtherKind =
    "no ending of a kind that is read here; name it on the command line to read it as text";

// Folders that cannot be listed and links to nothing are kept: opening them gives the reason.
std::vector<std::string> FilesIn(const std::string& folder, const std::string& output,
                                 const std::function<void(const std::string&)>& notice) {
  const FolderFiles found = FilesBelow(folder, [&](const std::string& path) {
    std::error_code none;
    return fs::is_directory(path, none) ? fs::exists(fs::path(path) / kIndexFile, none)
                                        : fs::exists(path, none) && IsOwn(path, output);
  });
  std::vector<std::string> files;
  LeftOutFiles left_out;
  const auto name = [](const std::string& path) {
    return fs::path(path).lexically_normal().string();
  };
  for (const std::string& path : found.files) {
    const std::string file = name(path), advice = ForeignAdvice(file);
    if (InputKindOfFile(file)) {
      files.push_back(file);
    } else {
      left_out.Add(file, advice.empty() ? kOtherKind : advice);
    }
  }
  for (const std::string& path : found.dangling) {
    if (InputKindOfFile(path)) {
      files.push_back(name(path));
    } else {
      left_out.Add(name(path), "a link to nothing");
    }
  }
  for (const auto& [path, why] : found.unreadable) files.push_back(name(path));
  for (const auto* list : {&found.links_out, &found.no_documents}) {
    for (const auto& [path, why] : *list) left_out.Add(name(path), why);
  }
  std::ranges::sort(files);
  if (files.empty()) {
    Throw(ErrorKind::kNotFound,
          "{}: no file in this folder has an ending that is read here: .txt, .md, .html, .pdf, "
          ".jsonl, .json, .csv, .tsv (and .gz, .zst)",
          folder);
  }
  if (notice) {
    for (const std::string& line : left_out.Lines()) notice(line);
  }
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
    const auto has = [&](const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    // A name that is only misspelt: the header's own error says so.
    const auto nearly_has = [&](const std::string& name) {
      return !NearestName(name, names).empty();
    };
    const bool of_documents = std::ranges::any_of(
        alternatives, [](const std::string& name) { return name == "text" || name == "context"; });
    return std::ranges::any_of(alternatives, has) ||
           (!of_documents && std::ranges::any_of(alternatives, nearly_has));
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
