// Values by the rules of src/values, with hints of the document for dates and numbers.
#include "tasks/extract/extract_convert.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "values/value_text.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

ValueType TypeOfKind(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNumber:
      return ValueType::kNumber;
    case ValueKind::kInteger:
      return ValueType::kInteger;
    case ValueKind::kBoolean:
      return ValueType::kBoolean;
    case ValueKind::kDate:
      return ValueType::kDate;
    case ValueKind::kEnum:
      return ValueType::kEnum;
    default:
      return ValueType::kText;
  }
}

ValueWish WishOf(const ExtractAttribute& attribute, const DocumentHints& hints) {
  ValueWish wish;
  wish.type = TypeOfKind(attribute.kind);
  wish.unit = attribute.unit;
  wish.allowed = attribute.allowed;
  wish.month_first = hints.month_first;
  wish.year = hints.year;
  wish.decimal_mark = hints.decimal_mark;
  return wish;
}

// A number with its unit as a text, "2.5 kg", in the first of the attribute's units it can be in.
TypedValue WithUnit(const ExtractAttribute& attribute, std::string_view raw, ValueWish wish) {
  TypedValue typed;
  const ConvertedValue plain = ConvertValue(raw, wish);
  if (plain.value.is_null() || plain.unit.empty()) {
    typed.reason = plain.value.is_null() ? plain.reason : fmt::format("'{}' has no unit", raw);
    return typed;
  }
  // As written where that unit is one of them, else converted.
  std::vector<std::string> units = attribute.units;
  std::ranges::stable_partition(units, [&](const std::string& u) { return u == plain.unit; });
  for (const std::string& unit : units) {
    wish.unit = unit;
    const ConvertedValue converted = ConvertValue(raw, wish);
    if (converted.value.is_null()) continue;
    typed.value = DumpJson(converted.value) + " " + unit;
    typed.unit = unit;
    return typed;
  }
  typed.reason = fmt::format("'{}' is in none of {}", raw, fmt::join(attribute.units, ", "));
  return typed;
}

TypedValue ConvertOne(const ExtractAttribute& attribute, const OrderedJson& written,
                      const DocumentHints& hints) {
  if (attribute.kind == ValueKind::kSchema || !written.is_string()) return {written, "", ""};
  const std::string& raw = written.get_ref<const std::string&>();
  const ValueWish wish = WishOf(attribute, hints);
  if (!attribute.units.empty()) return WithUnit(attribute, raw, wish);
  ConvertedValue converted = ConvertValue(raw, wish);
  return {std::move(converted.value), std::move(converted.unit), std::move(converted.reason)};
}

void AddReason(std::string& reasons, const std::string& reason) {
  if (reason.empty()) return;
  reasons += (reasons.empty() ? "" : "; ") + reason;
}

TypedValue ConvertList(const ExtractAttribute& attribute, const OrderedJson& written,
                       const DocumentHints& hints) {
  TypedValue list;
  list.value = OrderedJson::array();
  for (size_t i = 0; i < written.size(); ++i) {
    TypedValue item = ConvertOne(attribute.parts.front(), written[i], hints);
    AddReason(list.reason, item.reason);
    if (item.value.is_null() || std::ranges::find(list.value, item.value) != list.value.end()) {
      continue;
    }
    if (list.value.size() == static_cast<size_t>(attribute.max_items)) {
      AddReason(list.reason, fmt::format("more than {} items", attribute.max_items));
      break;
    }
    list.value.push_back(std::move(item.value));
    list.kept.push_back(i);
  }
  if (list.value.empty()) list.value = nullptr;
  return list;
}

bool DigitAt(std::string_view text, size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

// A date with only one reading tells how the document writes all of them.
bool MonthFirst(std::string_view text) {
  bool month_first = false;
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] != '/' || !DigitAt(text, at - 1) || !DigitAt(text, at + 1)) continue;
    const int first =
        text[at - 1] - '0' + (at >= 2 && DigitAt(text, at - 2) ? 10 * (text[at - 2] - '0') : 0);
    const bool two = DigitAt(text, at + 2);
    const size_t second_end = at + (two ? 3 : 2);
    if (second_end >= text.size() || text[second_end] != '/') continue;
    const int second = two ? 10 * (text[at + 1] - '0') + (text[at + 2] - '0') : text[at + 1] - '0';
    if (first > 12 && second <= 12) return false;
    if (second > 12 && second <= 31 && first <= 12) month_first = true;
  }
  return month_first;
}

// The year that all dates of the text with a year have.
int YearOf(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n", kAround = ".,;:!?()\"'";
  constexpr size_t kMostBefore = 3;  // words: "Friday 31st May 2024"
  ValueWish wish;
  wish.type = ValueType::kDate;
  std::vector<size_t> begins;
  int year = 0;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    begins.push_back(at);
    size_t digits = 0, most_digits = 0;
    for (size_t i = at; i < end; ++i) {
      digits = DigitAt(text, i) ? digits + 1 : 0;
      most_digits = std::max(most_digits, digits);
    }
    for (size_t before = 0; most_digits == 4 && before < std::min(begins.size(), kMostBefore);
         ++before) {
      const size_t begin = begins[begins.size() - 1 - before];
      std::string_view mention = text.substr(begin, end - begin);
      mention.remove_prefix(std::min(mention.find_first_not_of(kAround), mention.size()));
      mention = mention.substr(0, mention.find_last_not_of(kAround) + 1);
      const ConvertedValue date = ConvertValue(mention, wish);
      if (date.value.is_null()) continue;
      const int found = std::stoi(date.value.get_ref<const std::string&>());
      if (year != 0 && year != found) return 0;
      year = found;
      break;
    }
    at = text.find_first_not_of(kSpace, end);
  }
  return year;
}

// Whether a currency sign stands right before byte `at`.
bool AfterMoneySign(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  return before.ends_with("$") || before.ends_with("£") || before.ends_with("€");
}

// The mark before one or two last digits, where all numbers that tell agree: "12,50" tells of a
// comma. A point tells only in "£12.50" and "1,234.50": 18.30 may be a time, 2.1 a chapter.
DecimalMark DecimalMarkOf(std::string_view text) {
  bool point = false, comma = false;
  const auto is_mark = [&](size_t at) {
    return at > 0 && at < text.size() && (text[at] == '.' || text[at] == ',') &&
           DigitAt(text, at - 1) && DigitAt(text, at + 1);
  };
  for (size_t at = 1; at < text.size(); ++at) {
    if (!is_mark(at)) continue;
    size_t begin = at, end = at + 1;
    while (begin > 0 && DigitAt(text, begin - 1)) --begin;
    while (DigitAt(text, end)) ++end;
    const bool grouped = is_mark(begin - 1) && text[begin - 1] != text[at] && at - begin == 3;
    const bool alone = !is_mark(begin - 1) && !is_mark(end);
    if (end - at - 1 <= 2 && (grouped ? !is_mark(end) : alone)) {
      if (text[at] == ',') comma = true;
      if (text[at] == '.' && (grouped || AfterMoneySign(text, begin))) point = true;
    }
    at = end - 1;
  }
  if (point == comma) return DecimalMark::kUnknown;
  return point ? DecimalMark::kPoint : DecimalMark::kComma;
}

// Calls `take` with every run of one to six words of the text, without punctuation at its end, as
// long as it returns true.
template <typename Take>
void ForEachMention(std::string_view text, const Take& take) {
  constexpr size_t kMostWords = 6;
  constexpr std::string_view kSpace = " \t\r\n", kPunctuation = ".,;:!?()";
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.emplace_back(at, end);
    at = text.find_first_not_of(kSpace, end);
  }
  for (size_t first = 0; first < words.size(); ++first) {
    for (size_t last = first; last < std::min(words.size(), first + kMostWords); ++last) {
      std::string_view mention =
          text.substr(words[first].first, words[last].second - words[first].first);
      while (!mention.empty() && kPunctuation.find(mention.back()) != std::string_view::npos) {
        mention.remove_suffix(1);
      }
      while (!mention.empty() && mention.front() == '(') mention.remove_prefix(1);
      if (!mention.empty() && !take(mention, last - first + 1)) return;
    }
  }
}

}  // namespace

DocumentHints HintsOf(std::string_view document) {
  return {MonthFirst(document), YearOf(document), DecimalMarkOf(document)};
}

TypedValue ConvertWritten(const ExtractAttribute& attribute, const OrderedJson& written,
                          const Constraint* fits, const DocumentHints& hints) {
  if (written.is_null()) return {};
  TypedValue typed = attribute.kind == ValueKind::kList && written.is_array()
                         ? ConvertList(attribute, written, hints)
                         : ConvertOne(attribute, written, hints);
  if (typed.value.is_null() || fits == nullptr || fits->Matches(DumpJson(typed.value))) {
    return typed;
  }
  typed.reason = fmt::format("{} does not fit the schema", DumpJson(typed.value));
  typed.value = nullptr;
  return typed;
}

std::optional<std::string> FindMention(const ExtractAttribute& attribute, const OrderedJson& value,
                                       std::string_view text) {
  DocumentHints hints = HintsOf(text);
  hints.year = 0;  // a date is shown whole
  // The fewest words that have the value, and its unit where one stands with it.
  std::optional<std::string> best;
  size_t best_words = 0;
  bool best_has_unit = false;
  ForEachMention(text, [&](std::string_view mention, size_t count) {
    const TypedValue typed =
        ConvertWritten(attribute, OrderedJson(std::string(mention)), nullptr, hints);
    if (typed.value.is_null() || typed.value != value) return true;
    const bool has_unit = !typed.unit.empty();
    const bool better = has_unit != best_has_unit ? has_unit : count < best_words;
    if (best && !better) return true;
    best = std::string(mention);
    best_words = count;
    best_has_unit = has_unit;
    return true;
  });
  return best;
}

std::vector<std::string> MentionsOf(const ExtractAttribute& attribute, std::string_view document,
                                    const Constraint* fits, size_t most) {
  const DocumentHints hints = HintsOf(document);
  // With the attribute's own unit for the wish, a bare number has it too: ask for none.
  ExtractAttribute as_written = attribute;
  as_written.unit.clear();
  std::vector<std::string> mentions, with_unit;
  const auto value_of = [&](const std::string& text) {
    return ConvertWritten(attribute, OrderedJson(text), fits, hints).value;
  };
  ForEachMention(document, [&](std::string_view mention, size_t words) {
    const std::string text = PlainText(mention);
    if (std::ranges::find(mentions, text) != mentions.end()) return true;
    if (words == 1 && ListHasWord("a an ein eine un une", FoldedText(text))) return true;
    const OrderedJson value = value_of(text);
    if (value.is_null()) return true;
    // Words before a value add nothing to it.
    if (words > 1 && value_of(text.substr(text.find(' ') + 1)) == value) return true;
    mentions.push_back(text);
    if (!attribute.unit.empty() &&
        !ConvertWritten(as_written, OrderedJson(text), nullptr, hints).unit.empty()) {
      with_unit.push_back(text);
    }
    return mentions.size() < most;
  });
  return with_unit.empty() ? mentions : with_unit;
}

std::vector<std::optional<TextSpan>> PlacesOf(const OrderedJson& written,
                                              std::string_view document) {
  std::vector<std::optional<TextSpan>> places;
  const auto add = [&](const OrderedJson& value) {
    if (!value.is_string()) {
      places.push_back(value.is_number() ? FindNumber(document, value.dump()) : std::nullopt);
      return;
    }
    const std::string& text = value.get_ref<const std::string&>();
    const std::optional<TextSpan> span = FindSpan(document, text);
    places.push_back(span ? span : FindSpan(document, text, LetterCase::kAny));
  };
  if (!written.is_array()) {
    add(written);
  } else {
    for (const OrderedJson& item : written) add(item);
  }
  return places;
}

}  // namespace banyan
