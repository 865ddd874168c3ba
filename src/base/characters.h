// ASCII white space, UTF-8 characters (code points: what spans, limits and widths count).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace banyan {

inline constexpr std::string_view kSpaces = " \t\r\n\v\f";

inline bool IsBlank(std::string_view text) {
  return text.find_first_not_of(kSpaces) == std::string_view::npos;
}

// Without space at either end; a view of `text`.
inline std::string_view Trimmed(std::string_view text) {
  if (IsBlank(text)) return {};
  const size_t first = text.find_first_not_of(kSpaces);
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// Whether the byte is the first of a character.
inline bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

inline std::int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, BeginsCharacter);
}

}  // namespace banyan
