// UTF-8 one character at a time. Ill-formed input is cut as the Unicode standard recommends: each
// maximal part of an ill-formed sequence counts as one U+FFFD.
#pragma once

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

}  // namespace banyan
