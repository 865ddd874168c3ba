#include "tasks/rag/rag_citation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/spaces.h"

namespace banyan {
namespace {

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::int64_t CitedCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return !ContinuesCharacter(c); });
}

bool IsSpaceByte(char c) { return kSpaces.find(c) != std::string_view::npos; }

char InLowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// A text with its runs of white space as one space, and where each byte stands in the text itself.
struct SpacedText {
  std::string bytes;
  std::vector<size_t> places;  // [bytes + 1], the last: the text's end

  SpacedText(std::string_view text, bool lower) {
    for (size_t i = 0; i < text.size(); ++i) {
      const bool space = IsSpaceByte(text[i]);
      if (space && bytes.ends_with(' ')) continue;
      bytes += space ? ' ' : (lower ? InLowerCase(text[i]) : text[i]);
      places.push_back(i);
    }
    places.push_back(text.size());
  }
};

// What an answer writes around words of a document ("Anna Berg;") is not the document's.
std::string_view WithoutMarks(std::string_view text) {
  constexpr std::string_view kMarks = " \t\r\n,;:.!?\"'()[]";
  const size_t first = text.find_first_not_of(kMarks);
  if (first == std::string_view::npos) return text;
  return text.substr(first, text.find_last_not_of(kMarks) + 1 - first);
}

}  // namespace

std::optional<CitedBytes> FindWords(std::string_view text, std::string_view wanted) {
  wanted = Trimmed(wanted);
  if (wanted.empty() || ContinuesCharacter(wanted.front())) return std::nullopt;
  const auto whole = [&](size_t end) {
    return end == text.size() || !ContinuesCharacter(text[end]);
  };
  const size_t exact = text.find(wanted);
  if (exact != std::string_view::npos && whole(exact + wanted.size())) {
    return CitedBytes{exact, exact + wanted.size()};
  }
  for (const bool lower : {false, true}) {
    const SpacedText source(text, lower), words(wanted, lower);
    const size_t found = source.bytes.find(words.bytes);
    if (found == std::string::npos) continue;
    // The last byte is no space: it ends where it stands.
    const CitedBytes span{source.places[found], source.places[found + words.bytes.size() - 1] + 1};
    if (whole(span.end)) return span;
  }
  return std::nullopt;
}

nlohmann::ordered_json CitationOf(const RagDocument& document, std::string_view written) {
  const std::string_view text = document.text;
  std::optional<CitedBytes> span = FindWords(text, written);
  if (!span) {
    written = WithoutMarks(written);
    span = FindWords(text, written);
  }
  nlohmann::ordered_json citation;
  citation["document"] = document.id;
  if (!span) {
    citation["text"] = written;
    return citation;
  }
  const std::string_view cited = text.substr(span->begin, span->end - span->begin);
  const std::int64_t begin = CitedCharacters(text.substr(0, span->begin));
  const std::int64_t end = begin + CitedCharacters(cited);
  citation["text"] = cited;
  citation["begin"] = begin;
  citation["end"] = end;
  if (!document.source.empty()) {
    citation["source"] = document.source;
    citation["source_begin"] = document.begin + begin;
    citation["source_end"] = document.begin + end;
  }
  return citation;
}

}  // namespace banyan
