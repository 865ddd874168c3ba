// Numbers between bounds digit by digit, then strings with escapes.
#include "constrain/json_literals.h"

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "constrain/regex_parser.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostDigits = 15;
constexpr std::int64_t kLargest = 999'999'999'999'999;  // of 15 digits

ExpressionPtr Digit(char first, char last) {
  if (first > last) return Never();
  return OneOf(CharacterSet({{static_cast<char32_t>(first), static_cast<char32_t>(last)}}));
}

ExpressionPtr AnyDigits(std::int64_t least, std::int64_t most) {
  return Repeat(Digit('0', '9'), least, most);
}

// Numbers of as many digits as `low` and `high` have, from low to high; leading zeros count.
ExpressionPtr SameLength(const std::string& low, const std::string& high, size_t at) {
  if (at == low.size()) return Nothing();
  const auto rest = static_cast<std::int64_t>(low.size() - at - 1);
  const bool from_zero = low.find_first_not_of('0', at) == std::string::npos;
  const bool to_nine = high.find_first_not_of('9', at) == std::string::npos;
  if (from_zero && to_nine) return AnyDigits(rest + 1, rest + 1);
  if (low[at] == high[at]) {
    return Sequence({Digit(low[at], low[at]), SameLength(low, high, at + 1)});
  }
  const std::string zeros(low.size(), '0'), nines(low.size(), '9');
  return Choice({Sequence({Digit(low[at], low[at]), SameLength(low, nines, at + 1)}),
                 Sequence({Digit(static_cast<char>(low[at] + 1), static_cast<char>(high[at] - 1)),
                           AnyDigits(rest, rest)}),
                 Sequence({Digit(high[at], high[at]), SameLength(zeros, high, at + 1)})});
}

// 0 <= low.
ExpressionPtr Between(std::int64_t low, std::int64_t high) {
  if (low > high) return Never();
  std::vector<ExpressionPtr> choices;
  std::int64_t power = 10;  // numbers below it have `digits` digits or fewer
  for (std::int64_t digits = 1; digits <= kMostDigits; ++digits, power *= 10) {
    const std::int64_t first = std::max(low, digits == 1 ? 0 : power / 10);
    const std::int64_t last = std::min(high, power - 1);
    if (first > last) continue;
    choices.push_back(SameLength(std::to_string(first), std::to_string(last), 0));
  }
  return Choice(std::move(choices));
}

std::int64_t DigitsOf(std::int64_t value) {
  return static_cast<std::int64_t>(std::to_string(value).size());
}

// Decimals from `low` to `high` without their sign, 0 <= low; the ends are included unless
// `above` or `below` is set.
ExpressionPtr Decimals(std::int64_t low, std::int64_t high, bool above, bool below,
                       std::int64_t fraction_digits) {
  if (low > high || (low == high && (above || below))) return Never();
  const ExpressionPtr point = Literal(".");
  const ExpressionPtr zeros = Repeat(Digit('0', '0'), 0, fraction_digits - 1);
  const ExpressionPtr fraction = Sequence({point, AnyDigits(1, fraction_digits)});
  // A fraction above zero: its first digits are zeros, and one is not.
  std::vector<ExpressionPtr> above_zero;
  for (std::int64_t i = 0; i < fraction_digits; ++i) {
    above_zero.push_back(Sequence(
        {Repeat(Digit('0', '0'), i, i), Digit('1', '9'), AnyDigits(0, fraction_digits - i - 1)}));
  }
  const ExpressionPtr zero_fraction = Repeat(Sequence({point, Digit('0', '0'), zeros}), 0, 1);
  const ExpressionPtr at_low = Literal(std::to_string(low));
  std::vector<ExpressionPtr> choices;
  if (low < high) {
    choices.push_back(above ? Sequence({at_low, point, Choice(std::move(above_zero))})
                            : Sequence({at_low, Repeat(fraction, 0, 1)}));
    const ExpressionPtr between = Between(low + 1, high - 1);
    if (between->kind != Expression::Kind::kNever) {
      choices.push_back(Sequence({between, Repeat(fraction, 0, 1)}));
    }
  }
  if (!below) choices.push_back(Sequence({Literal(std::to_string(high)), zero_fraction}));
  return Choice(std::move(choices));
}

ExpressionPtr Negative(ExpressionPtr magnitude) {
  return Sequence({Literal("-"), std::move(magnitude)});
}

}  // namespace

ExpressionPtr WholeNumbers(const NumberBounds& bounds) {
  std::int64_t low = std::max(bounds.least.value_or(-kLargest), -kLargest);
  std::int64_t high = std::min(bounds.most.value_or(kLargest), kLargest);
  if (bounds.least && bounds.above_least) ++low;
  if (bounds.most && bounds.below_most) --high;
  if (low > high) return Never();
  return Choice({Negative(Between(std::max<std::int64_t>(1, -high), -low)),
                 Between(std::max<std::int64_t>(0, low), high)});
}

ExpressionPtr Numbers(const NumberBounds& bounds) {
  const std::int64_t low = bounds.least.value_or(-kLargest);
  const std::int64_t high = bounds.most.value_or(kLargest);
  const bool above = bounds.least && bounds.above_least;
  const bool below = bounds.most && bounds.below_most;
  // At most 15 digits in all, counting those of the bounds.
  std::int64_t digits = 1;
  if (bounds.least) digits = std::max(digits, DigitsOf(std::abs(low)));
  if (bounds.most) digits = std::max(digits, DigitsOf(std::abs(high)));
  BANYAN_CHECK(digits < kMostDigits);
  const std::int64_t fraction = kMostDigits - digits;
  std::vector<ExpressionPtr> choices;
  if (low < 0) {
    // Magnitudes from the bound nearer to zero; -0 is not generated.
    const bool to_zero = high >= 0;
    choices.push_back(
        Negative(Decimals(to_zero ? 0 : -high, -low, to_zero || below, above, fraction)));
  }
  if (high >= 0) {
    const bool from_zero = low < 0;
    choices.push_back(Decimals(from_zero ? 0 : low, high, !from_zero && above, below, fraction));
  }
  return Choice(std::move(choices));
}

namespace {

const CharacterSet& NeedNoEscape() {
  static const CharacterSet set({{' ', '!'}, {'#', '['}, {']', kLastCharacter}});
  return set;
}

ExpressionPtr Escaped(char32_t code) {
  static constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i < kShort.size(); i += 2) {
    if (static_cast<char32_t>(kShort[i]) == code) return Literal(std::string{'\\', kShort[i + 1]});
  }
  return Literal(fmt::format("\\u{:04x}", static_cast<unsigned>(code)));
}

ExpressionPtr JsonCharacter(const CharacterSet& set) {
  std::vector<ExpressionPtr> choices = {OneOf(set.Intersection(NeedNoEscape()))};
  const CharacterSet rest = set.Intersection(NeedNoEscape().Complement());
  for (const CharacterRange& range : rest.ranges()) {
    for (char32_t code = range.first; code <= range.last; ++code) choices.push_back(Escaped(code));
  }
  return Choice(std::move(choices));
}

ExpressionPtr InJson(const ExpressionPtr& e) {
  std::vector<ExpressionPtr> parts;
  for (const ExpressionPtr& part : e->parts) parts.push_back(InJson(part));
  switch (e->kind) {
    case Expression::Kind::kClass:
      return JsonCharacter(e->set);
    case Expression::Kind::kSequence:
      return Sequence(std::move(parts));
    case Expression::Kind::kChoice:
      return Choice(std::move(parts));
    case Expression::Kind::kRepeat:
      return Repeat(std::move(parts[0]), e->least, e->most);
    case Expression::Kind::kList: {
      std::vector<ListItem> items;
      for (size_t i = 1; i < parts.size(); ++i) items.push_back({parts[i], e->required[i]});
      return List(parts[0], std::move(items));
    }
    case Expression::Kind::kSpan:
      return SpanOf(e->source, SpanForm::kJson);
    case Expression::Kind::kJoined:
      return Joined(parts[0], parts[1]);
    case Expression::Kind::kNever:
    case Expression::Kind::kNothing:
      break;
  }
  return e;
}

}  // namespace

ExpressionPtr AnyJsonCharacter() {
  static const ExpressionPtr any =
      Choice({OneOf(NeedNoEscape()),
              WholeMatch(ParsePattern(
                  R"(\\(["\\/bfnrt]|u([0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|)"
                  R"([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))"))});
  return any;
}

ExpressionPtr QuotedJson(const ExpressionPtr& expression) {
  return Sequence({Literal("\""), InJson(expression), Literal("\"")});
}

}  // namespace banyan
