// Exact decimal arithmetic: 1.35 kg in g is 1350, and 0.1 stays 0.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "program/json_library.h"

namespace banyan {

// (negative ? -1 : 1) · digits · 10^exponent. Made by the functions below, it has no zeros at
// either end of `digits`; zero has no digits, exponent 0 and no sign.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;

  bool operator==(const Decimal&) const = default;
};

// REQUIRES: digits are '0' to '9'.
Decimal MakeDecimal(std::string_view digits, int exponent, bool negative = false);
Decimal MakeDecimal(std::int64_t mantissa, int exponent = 0);

Decimal operator-(Decimal value);
Decimal operator+(const Decimal& left, const Decimal& right);
Decimal operator*(const Decimal& left, const Decimal& right);
// Exact when the quotient has at most 40 digits, otherwise cut there. REQUIRES: right is not zero
// and has at most 18 digits.
Decimal operator/(const Decimal& left, const Decimal& right);

// Infinite or zero where a double cannot hold it.
double ToDouble(const Decimal& value);

// As JSON that prints as people expect: a whole number within 64 bits as an integer, all others
// as the nearest double. nullopt when digits before the point would be lost (a whole part of more
// than 15 digits that is no integer of 64 bits) and when a double is too small or too large for it.
std::optional<nlohmann::ordered_json> DecimalToJson(const Decimal& value);

}  // namespace banyan
