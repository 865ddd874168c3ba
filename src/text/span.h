// The position of an answer in its document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace banyan {

// In characters (code points) from the document's start; `end` is after the last one.
struct TextSpan {
  std::int64_t start = 0, end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

enum class LetterCase {
  kSame,
  kAny,  // of the letters A to Z
};

// The first occurrence of `words` in `document`: not inside a longer word or number, any white
// space matches any other. nullopt when there is none. Both are valid UTF-8.
std::optional<TextSpan> FindSpan(std::string_view document, std::string_view words,
                                 LetterCase letters = LetterCase::kSame);

// Whether byte `at` of the text, which is valid UTF-8, stands inside a character, a word or a
// number: a number goes on over a point, comma, colon or slash before a digit. Scripts without
// spaces, such as Han, kana and Thai, have no words to stand inside of.
bool CutsWord(std::string_view text, size_t at);

// The first occurrence of a number as it is written: not inside a longer one, not even across a
// decimal point or a comma.
std::optional<TextSpan> FindNumber(std::string_view document, std::string_view number);

}  // namespace banyan
