// Quantities in a mention: a number with its sign, magnitude and unit, or several that are one
// ("1 h 30 min").
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "values/convert.h"
#include "values/number_literal.h"
#include "values/unit_table.h"

namespace banyan {

// What the caller wants, where it decides between readings.
struct QuantityHints {
  bool whole = false;  // an integer is wanted
  DecimalMark mark = DecimalMark::kUnknown;
  const Unit* wanted = nullptr;  // the unit that a bare number would have
};

struct Quantity {
  size_t begin = 0, end = 0;  // its tokens
  bool understood = true;     // false: digits in no known notation, or part of a name
  Decimal value;
  const Unit* unit = nullptr;  // nullptr: none, or one that is not in the table
  std::string unit_text;       // the unit's symbol; of an unknown unit the words as written
  std::string per;             // "/month" of "60 EUR per month"
  bool unsure = false;         // 12.500 km may be 12.5 or 12 500
  bool plain_space = false;    // see NumberLiteral
  bool accounting = false;     // has a currency, cents or separators: brackets around it mean minus
};

std::vector<Quantity> ReadQuantities(std::span<const NumberToken> tokens,
                                     const QuantityHints& hints);

}  // namespace banyan
