// Characters (code points) of text in UTF-8: what spans, limits and widths count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace banyan {

// Whether the byte is the first of a character.
inline bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

inline std::int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, BeginsCharacter);
}

}  // namespace banyan
