// Chooses the one quantity of a mention and converts it to the wanted unit.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "values/convert_number.h"
#include "values/quantity.h"
#include "values/value_text.h"

namespace banyan {

namespace {

using TokenKind = NumberToken::Kind;

// Words before a number that do not change it.
constexpr std::string_view kHarmlessFront =
    "about approximately approx ca circa around roughly nearly almost some etwa ungefahr rund "
    "zirka "
    "fast knapp gut env environ presque autour d l de des du la le les the der die das den dem of "
    "from ab partir up to bis zu jusqu jusque a max maximum maximal maximale min minimum minimal "
    "mindestens hochstens least most at au aux plus only nur seulement just exactly genau "
    "exactement "
    "for fur pour total gesamt insgesamt each no nr num number n anzahl all full je pro per uvp is "
    "ist est sind are sont";
// A bound that the number itself does not satisfy.
constexpr std::string_view kStrictBounds =
    "over under above below less fewer more uber unter mehr weniger inferieur inferieure superieur "
    "superieure exceeding";
constexpr std::string_view kFractionWords =
    "thirds quarters drittel viertel tiers quarts funftel zehntel fifths tenths eighths achtel";

std::string RangeOrSeveral(std::span<const NumberToken> tokens, const Quantity& first,
                           const Quantity& second) {
  for (size_t i = first.end; i < second.begin; ++i) {
    const NumberToken& token = tokens[i];
    if (token.mark == kPlainDash || token.mark == U'…' ||
        ListHasWord("to bis a until and und et", token.folded)) {
      return "is a range, not one number";
    }
    if (token.mark == U'×' || token.mark == '*' ||
        ListHasWord("x by mal fois times", token.folded)) {
      return "is a product of numbers, not one number";
    }
  }
  return "has several numbers";
}

// Whether two quantities say the same: equal values in units of one kind, or a conversion in
// brackets that agrees within 2 % ("6 ft (183 cm)").
bool SaysTheSame(const Quantity& a, const Quantity& b) {
  if (a.value == b.value && (a.unit == b.unit || a.unit == nullptr || b.unit == nullptr))
    return true;
  if (a.unit == nullptr || b.unit == nullptr || a.unit == b.unit) return false;
  if (!CanConvert(*b.unit, *a.unit)) return false;
  const double left = ToDouble(a.value);
  const double right = ToDouble(ConvertUnit(b.value, *b.unit, *a.unit));
  return std::abs(left - right) <= 0.02 * std::max(std::abs(left), std::abs(right));
}

// The currency signs and one quantity in a pair of brackets: minus in accounts.
enum class Brackets { kNone, kMinus, kUnsure };

Brackets BracketsAround(std::span<const NumberToken> tokens, const Quantity& q) {
  size_t open = tokens.size();
  size_t close = tokens.size();
  bool money = q.accounting;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].mark == '(' && open == tokens.size()) {
      open = i;
    } else if (tokens[i].mark == ')') {
      close = i;
    } else if (i < q.begin || i >= q.end) {
      const Unit* unit = FindUnit(tokens[i].text);
      if (unit == nullptr || unit->dimension != Dimension::kMoney) return Brackets::kNone;
      money = true;
    }
  }
  if (close == tokens.size() || open >= q.begin || close < q.end) return Brackets::kNone;
  return money ? Brackets::kMinus : Brackets::kUnsure;
}

// What is wrong with the words before the first number; empty when nothing is.
std::optional<std::string> FrontProblem(std::span<const NumberToken> front, const Quantity& q,
                                        bool unit_wanted) {
  bool unknown = false;
  for (size_t i = 0; i < front.size(); ++i) {
    const NumberToken& token = front[i];
    if (token.kind == TokenKind::kMark) {
      if (token.mark == '<' || token.mark == '>') return "is a bound, not a number";
      if (token.mark == U'±') return "is a tolerance, not a number";
      if (token.mark == ':' || token.mark == '=') unknown = false;
      if (token.mark == kPlainDash && i == 0)
        return "begins with a dash that may be a minus or a bullet";
      continue;
    }
    const std::string& word = token.folded;
    const bool than = i + 1 < front.size() && ListHasWord("de d", front[i + 1].folded);
    const bool after_au = i > 0 && front[i - 1].folded == "au";
    if (ListHasWord(kStrictBounds, word) ||
        (ListHasWord("plus moins", word) && than && !after_au)) {
      return "is a bound, not a number";
    }
    if (IsNegation(word) && word != "no" && word != "non") return "denies its number";
    if (!ListHasWord(kHarmlessFront, word) && !(word == "moins" && after_au)) unknown = true;
  }
  if (!unknown) return std::nullopt;
  if (q.plain_space) return "has a space in its digits that may separate two numbers";
  if (unit_wanted && q.unit == nullptr)
    return "names no unit and has other words before its number";
  return std::nullopt;
}

std::string SingularOf(std::string_view text) {
  std::string word = FoldedText(PlainText(text));
  if (word.size() > 3 && word.back() == 's') word.pop_back();
  return word;
}

// Quotation marks around the whole mention are not feet or inches.
std::u32string WithoutQuotes(std::u32string text) {
  const auto is_quote = [](char32_t c) { return c == '"' || c == '\''; };
  if (text.size() < 3 || !is_quote(text.front()) || !is_quote(text.back())) return text;
  return text.substr(1, text.size() - 2);
}

class NumberConversion {
 public:
  NumberConversion(std::string_view raw, const ValueWish& wish)
      : raw_(raw), wish_(wish), wanted_(wish.unit.empty() ? nullptr : FindUnit(wish.unit)) {}

  ConvertedValue Convert() {
    const std::vector<NumberToken> tokens = ReadNumberTokens(WithoutQuotes(UniformText(raw_)));
    const std::vector<Quantity> found =
        WithoutOtherDimensions(tokens, ReadQuantities(tokens, Hints()));
    if (found.empty()) return Refuse("is not a number");
    for (const Quantity& q : found) {
      if (!q.understood) return Refuse("has digits that are not a number's notation");
      if (q.unsure) return Refuse("has a point that may be decimal or separate thousands");
    }
    for (const NumberToken& token : tokens) {
      if (token.mark == U'±') return Refuse("is a tolerance, not a number");
      if (ListHasWord(kFractionWords, token.folded)) return Refuse("is a fraction in words");
      if (token.folded.size() > 1 && token.folded[0] == 'x' &&
          token.folded.find_first_not_of("0123456789", 1) == std::string::npos) {
        return Refuse("is a product of numbers, not one number");
      }
    }
    Quantity q = found[0];
    for (size_t i = 1; i < found.size(); ++i) {
      if (!SaysTheSame(found[0], found[i]))
        return Refuse(RangeOrSeveral(tokens, found[0], found[i]));
      const bool better = q.unit == nullptr || (wanted_ != nullptr && found[i].unit == wanted_);
      if (better && found[i].unit != nullptr) {
        q.value = found[i].value;
        q.unit = found[i].unit;
        q.unit_text = found[i].unit_text;
        q.per = found[i].per;
      }
    }
    if (const auto problem =
            FrontProblem(std::span(tokens).first(found[0].begin), q, !wish_.unit.empty())) {
      return Refuse(*problem);
    }
    if (found.size() == 1) {
      const Brackets brackets = BracketsAround(tokens, q);
      if (brackets == Brackets::kUnsure) return Refuse("stands in brackets that may mean minus");
      if (brackets == Brackets::kMinus) {
        TakeOuterCurrency(tokens, q);
        q.value = -q.value;
      }
    }
    return InWantedUnit(q);
  }

 private:
  ConvertedValue Refuse(const std::string& problem) const {
    return {nullptr, "", QuotedMention(raw_) + " " + problem};
  }

  QuantityHints Hints() const {
    return {wish_.type == ValueType::kInteger, wish_.decimal_mark, wanted_};
  }

  // "5 kg for 60 EUR" wanted in EUR.
  std::vector<Quantity> WithoutOtherDimensions(std::span<const NumberToken> tokens,
                                               std::vector<Quantity> found) const {
    const auto fits = [&](const Quantity& q) { return CanConvert(*q.unit, *wanted_); };
    const auto is_aside = [&](const Quantity& q) {
      if (!q.understood || q.unit == nullptr || fits(q)) return false;
      if (q.unit->dimension != Dimension::kShare) return true;
      for (size_t i = q.begin; i-- > 0 && i + 3 > q.begin;) {
        if (tokens[i].mark == '(' ||
            ListHasWord("incl including inclusive inkl inklusive dont", tokens[i].folded)) {
          return true;
        }
      }
      return false;
    };
    if (wanted_ == nullptr) return found;
    std::vector<Quantity> rest = found;
    std::erase_if(rest, is_aside);
    const bool all_fit = std::all_of(
        rest.begin(), rest.end(), [&](const Quantity& q) { return q.unit != nullptr && fits(q); });
    return rest.empty() || !all_fit ? found : rest;
  }

  // "EUR (60.00)"
  static void TakeOuterCurrency(std::span<const NumberToken> tokens, Quantity& q) {
    for (size_t i = 0; i < tokens.size() && q.unit == nullptr; ++i) {
      q.unit = i < q.begin || i >= q.end ? FindUnit(tokens[i].text) : nullptr;
      if (q.unit != nullptr) q.unit_text = q.unit->symbol;
    }
  }

  ConvertedValue InWantedUnit(const Quantity& q) const {
    if (wish_.unit.empty()) return Finish(q.value, q.unit_text + (q.unit ? q.per : ""));
    if (q.unit_text.empty() && q.per.empty()) return Finish(q.value, wish_.unit);
    const bool bare_money = wanted_ != nullptr && wanted_->dimension == Dimension::kMoney;
    if (wanted_ == nullptr) {
      if (SingularOf(q.unit_text + q.per) != SingularOf(wish_.unit)) return WrongUnit(q);
      return Finish(q.value, wish_.unit);
    }
    if (q.unit == nullptr && q.unit_text.empty() && bare_money) return Finish(q.value, wish_.unit);
    if (q.unit == nullptr || (!q.per.empty() && !bare_money)) return WrongUnit(q);
    if (!CanConvert(*q.unit, *wanted_)) return WrongUnit(q);
    return Finish(ConvertUnit(q.value, *q.unit, *wanted_), wish_.unit);
  }

  ConvertedValue WrongUnit(const Quantity& q) const {
    if (q.unit != nullptr && q.unit->dimension == Dimension::kMoney && wanted_ != nullptr &&
        wanted_->dimension == Dimension::kMoney) {
      return Refuse("is in " + q.unit->symbol + ", and amounts are not exchanged into " +
                    wish_.unit);
    }
    const std::string in = q.unit_text + q.per;
    if (q.unit != nullptr && wanted_ != nullptr && q.per.empty()) {
      return Refuse("is a " + std::string(DimensionName(q.unit->dimension)) + " in " + in +
                    ", not a " + std::string(DimensionName(wanted_->dimension)) + " in " +
                    wish_.unit);
    }
    return Refuse("is in '" + PlainText(in) + "', not in '" + PlainText(wish_.unit) + "'");
  }

  ConvertedValue Finish(const Decimal& value, const std::string& unit) const {
    const std::optional<nlohmann::ordered_json> json = DecimalToJson(value);
    if (!json) return Refuse("has more digits than a number can hold");
    if (wish_.type == ValueType::kInteger && !json->is_number_integer()) {
      return Refuse(std::abs(json->get<double>()) < 9e15 ? "is not a whole number"
                                                         : "is larger than an integer can be");
    }
    return {*json, PlainText(unit), ""};
  }

  std::string_view raw_;
  const ValueWish& wish_;
  const Unit* wanted_;
};

}  // namespace

ConvertedValue ConvertNumber(std::string_view raw, const ValueWish& wish) {
  return NumberConversion(raw, wish).Convert();
}

}  // namespace banyan
