// Arithmetic on strings of digits.
#include "values/decimal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace banyan {
namespace {

constexpr size_t kQuotientDigits = 40;
// Quotients that do not end (1/3) are cut after 40 digits; rounded to fewer, 1/3 · 60 is 20 again.
constexpr size_t kKeptDigits = 30;

// Sum or difference of digit strings of the same length and exponent, larger minus smaller.
std::string AddDigits(const std::string& a, const std::string& b) {
  std::string sum(a.size() + 1, '0');
  int carry = 0;
  for (size_t i = a.size(); i-- > 0;) {
    const int digit = (a[i] - '0') + (b[i] - '0') + carry;
    sum[i + 1] = static_cast<char>('0' + digit % 10);
    carry = digit / 10;
  }
  sum[0] = static_cast<char>('0' + carry);
  return sum;
}

std::string SubtractDigits(const std::string& larger, const std::string& smaller) {
  std::string difference(larger.size(), '0');
  int borrow = 0;
  for (size_t i = larger.size(); i-- > 0;) {
    int digit = (larger[i] - '0') - (smaller[i] - '0') - borrow;
    borrow = digit < 0 ? 1 : 0;
    if (digit < 0) digit += 10;
    difference[i] = static_cast<char>('0' + digit);
  }
  return difference;
}

Decimal Rounded(const Decimal& value) {
  if (value.digits.size() <= kKeptDigits) return value;
  const int cut = static_cast<int>(value.digits.size() - kKeptDigits);
  const bool up = value.digits[kKeptDigits] >= '5';
  const Decimal kept =
      MakeDecimal(value.digits.substr(0, kKeptDigits), value.exponent + cut, value.negative);
  if (!up) return kept;
  return kept + MakeDecimal("1", value.exponent + cut, value.negative);
}

}  // namespace

Decimal MakeDecimal(std::string_view digits, int exponent, bool negative) {
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string_view::npos) return {};
  const size_t last = digits.find_last_not_of('0');
  exponent += static_cast<int>(digits.size() - 1 - last);
  return {negative, std::string(digits.substr(first, last + 1 - first)), exponent};
}

Decimal MakeDecimal(std::int64_t mantissa, int exponent) {
  std::string digits = std::to_string(mantissa);
  const bool negative = mantissa < 0;
  if (negative) digits.erase(0, 1);
  return MakeDecimal(digits, exponent, negative);
}

Decimal operator-(Decimal value) {
  if (!value.digits.empty()) value.negative = !value.negative;
  return value;
}

Decimal operator+(const Decimal& left, const Decimal& right) {
  if (left.digits.empty()) return right;
  if (right.digits.empty()) return left;
  const int exponent = std::min(left.exponent, right.exponent);
  std::string a = left.digits + std::string(static_cast<size_t>(left.exponent - exponent), '0');
  std::string b = right.digits + std::string(static_cast<size_t>(right.exponent - exponent), '0');
  const size_t size = std::max(a.size(), b.size());
  a.insert(0, size - a.size(), '0');
  b.insert(0, size - b.size(), '0');
  if (left.negative == right.negative) return MakeDecimal(AddDigits(a, b), exponent, left.negative);
  const bool left_larger = a >= b;
  return MakeDecimal(left_larger ? SubtractDigits(a, b) : SubtractDigits(b, a), exponent,
                     left_larger ? left.negative : right.negative);
}

Decimal operator*(const Decimal& left, const Decimal& right) {
  const std::string& a = left.digits;
  const std::string& b = right.digits;
  if (a.empty() || b.empty()) return {};
  std::vector<int> columns(a.size() + b.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) columns[i + j + 1] += (a[i] - '0') * (b[j] - '0');
  }
  for (size_t i = columns.size() - 1; i > 0; --i) {
    columns[i - 1] += columns[i] / 10;
    columns[i] %= 10;
  }
  std::string product;
  for (const int digit : columns) product += static_cast<char>('0' + digit);
  return MakeDecimal(product, left.exponent + right.exponent, left.negative != right.negative);
}

Decimal operator/(const Decimal& left, const Decimal& right) {
  BANYAN_CHECK(!right.digits.empty() && right.digits.size() <= 18);
  std::uint64_t divisor = 0;
  for (const char digit : right.digits) divisor = divisor * 10 + static_cast<unsigned>(digit - '0');
  std::string quotient;
  std::uint64_t rest = 0;
  int exponent = left.exponent - right.exponent;
  size_t significant = 0;
  for (size_t i = 0; i < left.digits.size() || (rest != 0 && significant < kQuotientDigits); ++i) {
    const bool given = i < left.digits.size();
    rest = rest * 10 + (given ? static_cast<unsigned>(left.digits[i] - '0') : 0u);
    if (!given) --exponent;
    quotient += static_cast<char>('0' + rest / divisor);
    rest %= divisor;
    if (significant > 0 || quotient.back() != '0') ++significant;
  }
  return MakeDecimal(quotient, exponent, left.negative != right.negative);
}

double ToDouble(const Decimal& value) {
  if (value.digits.empty()) return 0.0;
  const std::string text =
      (value.negative ? "-" : "") + value.digits + "e" + std::to_string(value.exponent);
  double number = 0.0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec == std::errc()) return number;
  const bool small = static_cast<int>(value.digits.size()) + value.exponent < 0;
  return small ? 0.0 : std::numeric_limits<double>::infinity();
}

std::optional<nlohmann::ordered_json> DecimalToJson(const Decimal& exact) {
  const Decimal value = Rounded(exact);
  if (value.digits.empty()) return std::int64_t{0};
  const int whole_digits = static_cast<int>(value.digits.size()) + value.exponent;
  if (value.exponent >= 0 && whole_digits <= 19) {
    const std::string text = (value.negative ? "-" : "") + value.digits +
                             std::string(static_cast<size_t>(value.exponent), '0');
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && end == text.data() + text.size()) return whole;
  }
  const bool many_digits = value.digits.size() > 15;
  if (whole_digits > 15 && many_digits) return std::nullopt;
  const double number = ToDouble(value);
  if (!std::isfinite(number) || number == 0.0) return std::nullopt;
  return number;
}

}  // namespace banyan
