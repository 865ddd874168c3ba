// Searches for words and numbers by bytes, respecting word boundaries.
#include "text/span.h"

#include "base/characters.h"

#include <cctype>
#include <string>

#include "text/unicode.h"

namespace banyan {
namespace {

bool IsSpace(char c) { return kSpaces.find(c) != std::string_view::npos; }

// For scripts with spaces between words; others have no word boundaries to respect.
bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// The end of `words` when the document has them at `begin`; npos when it does not.
size_t MatchAt(std::string_view document, size_t begin, std::string_view words) {
  size_t at = begin;
  for (size_t i = 0; i < words.size();) {
    if (IsSpace(words[i])) {
      if (at >= document.size() || !IsSpace(document[at])) return std::string_view::npos;
      while (i < words.size() && IsSpace(words[i])) ++i;
      while (at < document.size() && IsSpace(document[at])) ++at;
      continue;
    }
    if (at >= document.size() || document[at] != words[i]) return std::string_view::npos;
    ++at;
    ++i;
  }
  return at;
}

TextSpan SpanOfBytes(std::string_view document, size_t begin, size_t end) {
  const std::int64_t start = CountCharacters(document.substr(0, begin));
  return {start, start + CountCharacters(document.substr(begin, end - begin))};
}

// ASCII only, so the length in bytes stays.
std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool HasDigit(std::string_view text, size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

// Of a script that has spaces between words.
bool IsOfSpacedWord(char32_t code) {
  constexpr char32_t kThai = 0xE00, kGeorgian = 0x10A0, kKhmer = 0x1780, kMongolian = 0x1800;
  constexpr char32_t kEastAsian = 0x2E80;
  const bool spaced = code < kThai || (code >= kGeorgian && code < kKhmer) ||
                      (code >= kMongolian && code < kEastAsian);
  return spaced && code != U'_' && IsWordCharacter(code);
}

bool HasNumberByte(std::string_view text, size_t at) {
  return HasDigit(text, at) || (at < text.size() && (text[at] == '.' || text[at] == ','));
}

}  // namespace

std::optional<TextSpan> FindSpan(std::string_view document, std::string_view words,
                                 LetterCase letters) {
  if (letters == LetterCase::kAny) return FindSpan(LowerCase(document), LowerCase(words));
  const size_t first = words.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return std::nullopt;
  words = words.substr(first, words.find_last_not_of(kSpaces) + 1 - first);
  const std::string_view beginning = words.substr(0, words.find_first_of(kSpaces));
  for (size_t at = document.find(beginning); at != std::string_view::npos;
       at = document.find(beginning, at + 1)) {
    if (at > 0 && IsWordByte(document[at - 1]) && IsWordByte(words.front())) continue;
    const size_t end = MatchAt(document, at, words);
    if (end == std::string_view::npos) continue;
    if (end < document.size() && IsWordByte(document[end]) && IsWordByte(words.back())) continue;
    return SpanOfBytes(document, at, end);
  }
  return std::nullopt;
}

bool CutsWord(std::string_view text, size_t at) {
  if (at == 0 || at >= text.size()) return false;
  if (!BeginsCharacter(text[at])) return true;
  const auto joins = [&](size_t place) {
    return std::string_view(".,:/").find(text[place]) != std::string_view::npos;
  };
  if (HasDigit(text, at - 1) && joins(at) && HasDigit(text, at + 1)) return true;
  if (at > 1 && HasDigit(text, at - 2) && joins(at - 1) && HasDigit(text, at)) return true;
  size_t before = at - 1;
  while (before > 0 && !BeginsCharacter(text[before])) --before;
  return IsOfSpacedWord(ReadUtf8(text, before).code) && IsOfSpacedWord(ReadUtf8(text, at).code);
}

std::optional<TextSpan> FindNumber(std::string_view document, std::string_view number) {
  if (number.empty()) return std::nullopt;
  for (size_t at = document.find(number); at != std::string_view::npos;
       at = document.find(number, at + 1)) {
    const size_t end = at + number.size();
    // A point or comma after it belongs to it only before another digit.
    const bool goes_on =
        HasDigit(document, end) || (HasNumberByte(document, end) && HasDigit(document, end + 1));
    const bool began = at > 0 && HasNumberByte(document, at - 1);
    if (!goes_on && !began) return SpanOfBytes(document, at, end);
  }
  return std::nullopt;
}

}  // namespace banyan
