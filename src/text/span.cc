#include "text/span.h"

#include <cctype>
#include <string>

namespace banyan {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

bool IsSpace(char c) { return kSpaces.find(c) != std::string_view::npos; }

// Of scripts that put spaces between words; others have no borders to keep.
bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::int64_t CountCharacters(std::string_view text) {
  std::int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

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

}  // namespace

std::optional<TextSpan> FindSpan(std::string_view document, std::string_view words) {
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
    const std::int64_t start = CountCharacters(document.substr(0, at));
    return TextSpan{start, start + CountCharacters(document.substr(at, end - at))};
  }
  return std::nullopt;
}

}  // namespace banyan
