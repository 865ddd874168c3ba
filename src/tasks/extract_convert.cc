#include "tasks/extract_convert.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_row.h"
#include "values/convert.h"

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
  for (const OrderedJson& entry : written) {
    TypedValue item = ConvertOne(attribute.parts.front(), entry, hints);
    AddReason(list.reason, item.reason);
    if (item.value.is_null() || std::ranges::find(list.value, item.value) != list.value.end()) {
      continue;
    }
    if (list.value.size() == static_cast<size_t>(attribute.max_items)) {
      AddReason(list.reason, fmt::format("more than {} items", attribute.max_items));
      break;
    }
    list.value.push_back(std::move(item.value));
  }
  if (list.value.empty()) list.value = nullptr;
  return list;
}

}  // namespace

// A date of which only one reading exists says how the document writes the others.
DocumentHints HintsOf(std::string_view document) {
  DocumentHints hints;
  const auto digit = [&](size_t at) {
    return at < document.size() && document[at] >= '0' && document[at] <= '9';
  };
  for (size_t at = 0; at < document.size(); ++at) {
    if (document[at] != '/' || at < 1 || !digit(at - 1) || !digit(at + 1)) continue;
    const int first =
        document[at - 1] - '0' + (at >= 2 && digit(at - 2) ? 10 * (document[at - 2] - '0') : 0);
    const size_t second_end = at + (digit(at + 2) ? 3 : 2);
    if (second_end >= document.size() || document[second_end] != '/') continue;
    const int second = digit(at + 2) ? 10 * (document[at + 1] - '0') + (document[at + 2] - '0')
                                     : document[at + 1] - '0';
    if (first > 12 && second <= 12) return {};
    if (second > 12 && second <= 31 && first <= 12) hints.month_first = true;
  }
  return hints;
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
  constexpr size_t kMostWords = 6;
  constexpr std::string_view kSpace = " \t\r\n", kPunctuation = ".,;:!?()";
  const DocumentHints hints = HintsOf(text);
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.emplace_back(at, end);
    at = text.find_first_not_of(kSpace, end);
  }
  // The fewest words that have the value, and its unit where one stands with it.
  std::optional<std::string> best;
  size_t best_words = 0;
  bool best_has_unit = false;
  for (size_t first = 0; first < words.size(); ++first) {
    for (size_t last = first; last < std::min(words.size(), first + kMostWords); ++last) {
      std::string_view mention =
          text.substr(words[first].first, words[last].second - words[first].first);
      while (!mention.empty() && kPunctuation.find(mention.back()) != std::string_view::npos) {
        mention.remove_suffix(1);
      }
      const TypedValue typed =
          ConvertWritten(attribute, OrderedJson(std::string(mention)), nullptr, hints);
      if (typed.value.is_null() || typed.value != value) continue;
      const size_t count = last - first + 1;
      const bool has_unit = !typed.unit.empty();
      const bool better = has_unit != best_has_unit ? has_unit : count < best_words;
      if (best && !better) continue;
      best = std::string(mention);
      best_words = count;
      best_has_unit = has_unit;
    }
  }
  return best;
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
