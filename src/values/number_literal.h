// A mention of a quantity as numbers, words and marks; and one number written with digits, in a
// uniform text (value_text.h). The rules of decimal marks are in convert.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "values/decimal.h"

namespace banyan {

// More digits than any quantity has.
inline constexpr size_t kMaxLiteralDigits = 25;

struct NumberLiteral {
  bool understood = false;  // false: digits and marks in no known notation, as 1.2.3 or 31.05.2024
  size_t end = 0;           // index after its last character
  Decimal value;
  // '.' or ',' where a single mark with three digits after it has two readings: `value` takes it
  // as the decimal mark, `grouped` as a separator of thousands.
  char32_t unsure_mark = 0;
  Decimal grouped;
  bool plain_space = false;  // its groups are separated by U+0020
  bool separated = false;    // it has a separator of thousands
  bool cents = false;        // two digits after the decimal mark, or ",-"
  bool digits_only = false;  // no marks
  size_t digit_count = 0;
};

bool IsAsciiDigit(char32_t code);

// REQUIRES: text[at] is a digit, or a point or comma before a digit, or a fraction such as ½.
NumberLiteral ReadLiteral(std::u32string_view text, size_t at);

// Whether text[at] is a fraction of one character: ½, ¼, ⅔ …
bool IsVulgarFraction(char32_t code);

// How a dash is meant, by what is around it.
inline constexpr char32_t kMinusSign = 0x2212;  // "-5", "€ -5": directly in front of a number
inline constexpr char32_t kNameDash = 0x2010;   // "A-5": part of a name
inline constexpr char32_t kPlainDash = U'-';    // all others, as in "3-5" and "- 5"

struct NumberToken {
  enum class Kind { kNumber, kWord, kMark };
  Kind kind = Kind::kMark;
  NumberLiteral number;
  std::string text;    // of a word: as it is written, without points at its end
  std::string folded;  // of a word, see FoldedText
  char32_t mark = 0;
  bool spaced = false;  // white space precedes it
};

// Words are runs of letters, with digits after letters (m2, A4); %, °C, currency signs, and ' and "
// directly after a number. Hyphens between words and quotation marks give no token.
std::vector<NumberToken> ReadNumberTokens(std::u32string_view text);

bool IsCurrencySign(char32_t code);

}  // namespace banyan
