#include "retrieve/document_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/byte_source.h"
#include "base/error.h"
#include "base/head_source.h"
#include "base/json_row.h"
#include "base/line_reader.h"
#include "base/spaces.h"
#include "documents/document_text.h"
#include "text/utf8.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 256u << 20;  // of a document or a row

std::string TextOf(const Json& row, const char* name) {
  const auto it = row.find(name);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// {"id"?,"text","title"?}; a row without an id is called by its file and line.
WholeDocument ReadRow(const std::string& line, const std::string& place) {
  const Json row = ParseJsonRow(line);
  if (!row.is_object()) {
    Throw(ErrorKind::kInput, "expected an object, found {}", TypeName(row));
  }
  WholeDocument document{place, TextOf(row, "title"), TextOf(row, "text")};
  const Json id = row.value("id", Json());
  if (id.is_string()) document.id = id.get<std::string>();
  if (IsNumber(id)) document.id = DumpJson(id);
  if (IsBlank(document.text)) Throw(ErrorKind::kInput, "expected a text 'text' that is not empty");
  return document;
}

void VisitRows(const std::string& file, const DocumentVisitor& visitor) {
  LineReader reader(OpenByteSource(file), kMaxBytes);
  std::string line;
  while (reader.Next(line)) {
    if (IsBlank(line) && !reader.too_long()) continue;
    try {
      if (reader.too_long()) Throw(ErrorKind::kLimit, "longer than {} bytes", kMaxBytes);
      if (!IsValidUtf8(line)) Throw(ErrorKind::kInput, "not valid UTF-8");
      visitor.document(ReadRow(line, fmt::format("{}:{}", file, reader.number())));
    } catch (const Error& e) {
      visitor.left_out(fmt::format("{}, line {}: left out: {}", file, reader.number(), e.what()));
    }
  }
}

// By the ending; a file with another one is a PDF by its first bytes, or plain text.
DocumentKind KindOf(const std::string& name, HeadSource& source) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* ending : {".html", ".htm", ".xhtml"}) {
    if (lower.ends_with(ending)) return DocumentKind::kHtml;
  }
  constexpr std::string_view kPdf = "%PDF-";
  const auto enough = [&](std::string_view head) { return head.size() >= kPdf.size(); };
  const bool pdf = lower.ends_with(".pdf") || source.Head(kPdf.size(), enough).starts_with(kPdf);
  return pdf ? DocumentKind::kPdf : DocumentKind::kPlain;
}

bool LeadsOut(const fs::path& link, const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error), inside = fs::canonical(folder, error);
  if (error) return true;
  return std::mismatch(inside.begin(), inside.end(), target.begin(), target.end()).first !=
         inside.end();
}

}  // namespace

std::vector<std::string> FilesOf(const std::vector<std::string>& inputs,
                                 const DocumentVisitor& visitor) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (!fs::exists(input)) Throw(ErrorKind::kNotFound, "{}: no such file or folder", input);
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    const size_t first = files.size();
    std::error_code error;
    fs::recursive_directory_iterator it(input, fs::directory_options::skip_permission_denied,
                                        error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      std::error_code none;
      const std::string name = it->path().filename().string();
      if (name.starts_with('.')) {
        it.disable_recursion_pending();
      } else if (!it->is_regular_file(none) || name == kIndexFileName) {
        continue;
      } else if (it->is_symlink(none) && LeadsOut(it->path(), input)) {
        visitor.left_out(fmt::format(
            "{}: left out: a link to a file outside of {}; name it on the command line to read it",
            it->path().string(), input));
      } else {
        files.push_back(it->path().string());
      }
    }
    if (error) Throw(ErrorKind::kIo, "{}: cannot read the folder: {}", input, error.message());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

void VisitDocuments(const std::string& file, const DocumentVisitor& visitor) {
  try {
    std::string name = file;
    for (const char* packing : {".gz", ".zst"}) {
      if (name.ends_with(packing)) name.resize(name.rfind('.'));
    }
    if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return VisitRows(file, visitor);
    HeadSource source(OpenByteSource(file));
    const DocumentKind kind = KindOf(name, source);
    WholeDocument document{file, "", ReadDocument(source, kind, kMaxBytes, nullptr)};
    if (IsBlank(document.text)) Throw(ErrorKind::kInput, "it has no text");
    visitor.document(document);
  } catch (const Error& e) {
    visitor.left_out(fmt::format("{}: left out: {}", file, e.what()));
  }
}

}  // namespace banyan
