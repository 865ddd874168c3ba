// What the splitting patterns of tokenizers ask of a character: letter, number, space or none of
// them. Letters and numbers are PCRE2's \p{L} and \p{N}, so that a pattern run by hand and the same
// pattern run by PCRE2 agree in every character.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace banyan {

// Each character has exactly one of the first five; kNumeric may stand beside them.
using CharacterClass = std::uint8_t;
inline constexpr CharacterClass kOtherCharacter = 1;
inline constexpr CharacterClass kLetter = 2;
inline constexpr CharacterClass kNumber = 4;
inline constexpr CharacterClass kBlank = 8;     // white space other than …
inline constexpr CharacterClass kNewline = 16;  // … \r and \n
inline constexpr CharacterClass kNumeric =
    32;  // IsNumeric, which may know other numbers than PCRE2
inline constexpr CharacterClass kAnySpace = kBlank | kNewline;

inline constexpr std::array<CharacterClass, 128> kAsciiClasses = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    const bool newline = c == '\r' || c == '\n';
    const bool blank = c == ' ' || c == '\t' || c == '\v' || c == '\f';
    classes[c] = letter    ? kLetter
                 : digit   ? kNumber | kNumeric
                 : newline ? kNewline
                 : blank   ? kBlank
                           : kOtherCharacter;
  }
  return classes;
}();

// Of any character. The first calls ask PCRE2 about all of them, some milliseconds.
CharacterClass ClassInTable(char32_t code);

// REQUIRES: code is a Unicode scalar value.
inline CharacterClass ClassOfCode(char32_t code) {
  return code < kAsciiClasses.size() ? kAsciiClasses[code] : ClassInTable(code);
}

struct ClassifiedCharacter {
  CharacterClass classes;
  std::uint8_t length;  // in bytes
};

// The character at `at` in a well-formed text.
inline ClassifiedCharacter ClassifyUtf8(const char* at) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {kAsciiClasses[first], 1};
  if (first < 0xE0) return {ClassInTable(((first & 0x1F) << 6) | (byte(1) & 0x3F)), 2};
  if (first < 0xF0) {
    return {ClassInTable(((first & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F)), 3};
  }
  return {ClassInTable(((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) |
                       (byte(3) & 0x3F)),
          4};
}

// Whether a letter, a space and a letter stand around `at`, which is the space's place: where texts
// may be cut for tokenizers that allow cuts before words. The text may be ill-formed.
bool IsCutBeforeWord(std::string_view text, size_t at);

}  // namespace banyan
