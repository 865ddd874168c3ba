// Unicode: UTF-8 one character at a time, character properties, normal forms, and the character
// classes that tokenizers split by. Ill-formed UTF-8 is cut as the Unicode standard recommends:
// each maximal part of an ill-formed sequence counts as one U+FFFD.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace banyan {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Character {
  char32_t code = kReplacementCharacter;
  std::uint8_t length = 1;  // bytes taken, 1 to 4
  bool valid = false;
  bool incomplete = false;  // not valid, but the text ends here: more bytes might complete it
};

// REQUIRES: position < text.size().
Utf8Character ReadUtf8(std::string_view text, size_t position);

// REQUIRES: code is a Unicode scalar value.
void AppendUtf8(char32_t code, std::string& out);

// The first byte at or after `begin` that is not ASCII, or the text's end.
size_t SkipAscii(std::string_view text, size_t begin);
bool IsAscii(std::string_view text);
bool IsValidUtf8(std::string_view text);

// Appends `bytes`, with U+FFFD in place of every ill-formed part.
void AppendLossyUtf8(std::string_view bytes, std::string& out);

// Length of the longest prefix that more bytes cannot change: what follows it is an unfinished
// character of at most three bytes.
size_t FinishedUtf8Prefix(std::string_view bytes);

// Character properties, as the reference tokenizers define them.
bool IsWhitespace(char32_t code);        // Unicode White_Space
bool IsNumeric(char32_t code);           // Nd, Nl, No
bool IsPunctuation(char32_t code);       // P*, and the ASCII symbols such as $ and ^
bool IsMark(char32_t code);              // Mn, Mc, Me
bool IsNonspacingMark(char32_t code);    // Mn
bool IsControl(char32_t code);           // Cc, Cf, Co
bool IsWordCharacter(char32_t code);     // \w: letters, marks, decimal digits, connectors
bool IsChineseCharacter(char32_t code);  // the ideograph blocks that BERT separates

// Full lower-case mapping of one character (without context), appended to `out`.
void AppendLowercase(char32_t code, std::string& out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: text is well-formed UTF-8.
std::string ToNormalForm(std::string_view text, NormalForm form);

// A quick test that most texts pass: whether `text` has only characters of the common alphabets
// that normal form C never changes. False does not mean that NFC changes it. REQUIRES: text is
// well-formed UTF-8.
bool IsSurelyNfc(std::string_view text);

// The character classes of tokenizers' splitting patterns: letter, number, space or other. Letters
// and numbers are PCRE2's \p{L} and \p{N}, so that WordSplitter and PCRE2 agree on every character.
// Each character has exactly one of the first five; kNumericClass may be added to them.
using CharacterClass = std::uint8_t;
inline constexpr CharacterClass kOtherClass = 1;
inline constexpr CharacterClass kLetterClass = 2;
inline constexpr CharacterClass kNumberClass = 4;
inline constexpr CharacterClass kBlankClass = 8;     // white space other than …
inline constexpr CharacterClass kNewlineClass = 16;  // … \r and \n
inline constexpr CharacterClass kNumericClass = 32;  // IsNumeric; its Unicode version may differ
inline constexpr CharacterClass kSpaceClasses = kBlankClass | kNewlineClass;

inline constexpr std::array<CharacterClass, 128> kAsciiClasses = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    const bool newline = c == '\r' || c == '\n';
    const bool blank = c == ' ' || c == '\t' || c == '\v' || c == '\f';
    classes[c] = letter    ? kLetterClass
                 : digit   ? kNumberClass | kNumericClass
                 : newline ? kNewlineClass
                 : blank   ? kBlankClass
                           : kOtherClass;
  }
  return classes;
}();

// Of any character. The first calls build tables with PCRE2, which takes some milliseconds.
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

// Whether text[at] is a space between two letters: where a text may be cut for tokenizers that
// allow cuts before words. The text may be ill-formed.
bool IsCutBeforeWord(std::string_view text, size_t at);

}  // namespace banyan
