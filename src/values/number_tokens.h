// A mention of a quantity as numbers, words and marks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "values/number_literal.h"

namespace banyan {

// Marks that stand for what the place of a dash tells.
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
  bool spaced = false;  // white space stands before it
};

// Words are runs of letters, with digits behind letters (m2, A4); %, °C, currency signs, and ' and
// " directly behind a number. Hyphens between words and quotation marks give no token.
std::vector<NumberToken> ReadNumberTokens(std::u32string_view text);

bool IsCurrencySign(char32_t code);

}  // namespace banyan
