// JSON numbers between bounds and JSON strings, as regular expressions.
#pragma once

#include <cstdint>
#include <optional>

#include "constrain/expression.h"

namespace banyan {

// Bounds are whole numbers of at most 14 digits: decimals of 15 digits keep their order as doubles,
// so a parser of the text never finds a number beyond a bound.
inline constexpr std::int64_t kLargestBound = 99'999'999'999'999;

struct NumberBounds {
  std::optional<std::int64_t> least, most;
  bool above_least = false;  // the bound itself is excluded
  bool below_most = false;
};

// Whole numbers, without a fraction, an exponent or -0; at most 15 digits unless a bound is
// tighter. kNever when there is none.
ExpressionPtr WholeNumbers(const NumberBounds& bounds);

// Numbers with an optional fraction and no exponent. REQUIRES: bounds within kLargestBound.
ExpressionPtr Numbers(const NumberBounds& bounds);

// One character of a JSON string, in every spelling: itself, \n, \u000a, a pair of surrogates.
ExpressionPtr AnyJsonCharacter();

// The texts of `expression` as JSON strings, quotes included. Only what must be escaped is, in the
// short form.
ExpressionPtr QuotedJson(const ExpressionPtr& expression);

}  // namespace banyan
