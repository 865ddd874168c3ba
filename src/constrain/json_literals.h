// Numbers in JSON between bounds, as texts: what a regular expression can say about them.
#pragma once

#include <cstdint>
#include <optional>

#include "constrain/expression.h"

namespace banyan {

// Bounds are whole numbers of at most 14 digits: decimals of 15 digits keep their order as doubles,
// so no reader of the text finds it on the other side of a bound.
inline constexpr std::int64_t kLargestBound = 99'999'999'999'999;

struct NumberBounds {
  std::optional<std::int64_t> least, most;
  bool above_least = false;  // the bound itself is out
  bool below_most = false;
};

// Whole numbers, without a fraction, an exponent or -0; at most 15 digits where no bound says less.
// kNever when there is none.
ExpressionPtr WholeNumbers(const NumberBounds& bounds);

// Numbers with an optional fraction and no exponent. REQUIRES: bounds within kLargestBound.
ExpressionPtr Numbers(const NumberBounds& bounds);

// Texts as they stand between the quotes of a JSON string.

// One character of a JSON string, in every spelling: itself, \n, \u000a, a pair of surrogates.
ExpressionPtr AnyJsonCharacter();

// The texts of `expression` as JSON strings, quotes included; what must be escaped is, the short
// way, and nothing else.
ExpressionPtr QuotedJson(const ExpressionPtr& expression);

}  // namespace banyan
