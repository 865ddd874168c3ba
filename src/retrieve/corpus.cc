// Files and folders → documents → passages.
#include "retrieve/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iterator>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "documents/document_text.h"
#include "documents/folder_files.h"
#include "documents/foreign_format.h"
#include "text/unicode.h"

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
      visitor.left_out(fmt::format("{}, line {}", file, reader.number()), e.what());
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

void AddFolder(const std::string& folder, FoundFiles& found) {
  FolderFiles below = FilesBelow(folder, [](const std::string& path) {
    std::error_code none;
    return fs::path(path).filename().string().starts_with(kIndexFileName) ||
           fs::exists(fs::path(path) / kIndexFileName, none);
  });
  std::ranges::move(below.files, std::back_inserter(found.files));
  std::ranges::move(below.unreadable, std::back_inserter(found.unreadable));
  std::ranges::move(below.links_out, std::back_inserter(found.unreadable));
  for (const std::string& link : below.dangling) {
    found.no_documents.emplace_back(link, "a link to nothing");
  }
  std::ranges::move(below.no_documents, std::back_inserter(found.no_documents));
}

// How good a place is for the end of a passage.
enum class Place { kWord, kSentence, kParagraph };

// A place between two words: before so many words and at this byte.
struct Cut {
  size_t byte = 0;
  int words = 0;
  Place place = Place::kWord;
};

bool EndsSentence(char c) { return c == '.' || c == '!' || c == '?'; }

// Every place after a word.
std::vector<Cut> CutsOf(std::string_view text) {
  std::vector<Cut> cuts;
  int words = 0;
  size_t at = 0;
  while (at < text.size()) {
    at = std::min(text.find_first_not_of(kSpaces, at), text.size());
    if (at == text.size()) break;
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    const size_t next = std::min(text.find_first_not_of(kSpaces, end), text.size());
    const std::string_view space = text.substr(end, next - end);
    Cut cut{end, ++words, Place::kWord};
    const bool blank_line = std::count(space.begin(), space.end(), '\n') > 1;
    if (EndsSentence(text[end - 1])) cut.place = Place::kSentence;
    if (blank_line || next == text.size()) cut.place = Place::kParagraph;
    cuts.push_back(cut);
    at = next;
  }
  return cuts;
}

// The last of the best places among those that keep at least half of the words.
size_t BestCut(const std::vector<Cut>& cuts, size_t first, size_t last) {
  const int least = cuts[first].words - 1 + (cuts[last].words - cuts[first].words + 2) / 2;
  size_t best = last;
  for (size_t i = last + 1; i-- > first && cuts[i].words >= least;) {
    if (cuts[i].place > cuts[best].place) best = i;
  }
  return best;
}

}  // namespace

FoundFiles FilesOf(const std::vector<std::string>& inputs) {
  FoundFiles found;
  for (const std::string& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (status.type() == fs::file_type::not_found) {
      Throw(ErrorKind::kNotFound, "{}: no such file or folder", input);
    }
    if (error) {
      found.unreadable.emplace_back(input, "cannot read it: " + error.message());
    } else if (fs::is_directory(status)) {
      AddFolder(input, found);
    } else {
      found.files.push_back(input);
    }
  }
  return found;
}

std::string WithoutName(std::string_view message, const std::string& file) {
  if (message.starts_with(file + ": ")) message.remove_prefix(file.size() + 2);
  return std::string(message);
}

void VisitDocuments(const std::string& file, const DocumentVisitor& visitor) {
  try {
    std::string name = file;
    for (const char* packing : {".gz", ".zst"}) {
      if (name.ends_with(packing)) name.resize(name.rfind('.'));
    }
    if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return VisitRows(file, visitor);
    const std::string advice = ForeignAdvice(name);
    if (!advice.empty()) Throw(ErrorKind::kInput, "{}", advice);
    HeadSource source(OpenByteSource(file));
    const DocumentKind kind = KindOf(name, source);
    WholeDocument document{file, "", ReadDocument(source, kind, kMaxBytes, nullptr)};
    if (IsBlank(document.text)) Throw(ErrorKind::kInput, "the file has no text");
    visitor.document(document);
  } catch (const NotUtf8& e) {
    visitor.left_out(file, fmt::format("{}{}iconv -f {} -t UTF-8 {} > FILE", e.what(), kConvertIt,
                                       e.encoding(), ShellWord(file)));
  } catch (const Error& e) {
    visitor.left_out(file, WithoutName(e.what(), file));
  }
}

void AppendPassages(const WholeDocument& document, int most_words, std::vector<Passage>& passages) {
  const std::vector<Cut> cuts = CutsOf(document.text);
  if (cuts.empty()) return;
  const auto most = static_cast<size_t>(std::max(1, most_words));
  const bool divided = cuts.size() > most;
  const std::string_view text = document.text;
  size_t byte = 0, number = 0;
  std::int64_t characters = 0;
  for (size_t first = 0; first < cuts.size();) {
    const bool rest = first + most >= cuts.size();
    const size_t end = rest ? cuts.size() - 1 : BestCut(cuts, first, first + most - 1);
    const size_t begin = std::min(text.find_first_not_of(kSpaces, byte), text.size());
    characters += CountCharacters(text.substr(byte, begin - byte));
    Passage& passage = passages.emplace_back();
    passage.source = document.id;
    passage.id = divided ? document.id + "#" + std::to_string(++number) : document.id;
    passage.title = document.title;
    passage.text = text.substr(begin, cuts[end].byte - begin);
    passage.begin = characters;
    characters += CountCharacters(passage.text);
    byte = cuts[end].byte;
    first = end + 1;
  }
}

}  // namespace banyan
