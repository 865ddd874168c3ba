#include "tasks/score/extract_compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "base/json.h"
#include "program/score.h"

namespace banyan {
namespace {

// Converted units (0.46 m = 46 cm) differ from the right value by rounding only.
constexpr double kNumberTolerance = 1e-9;

std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean() || value.is_structured()) return std::nullopt;
  const std::string text = TextOrJson(value);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool all = !text.empty() && end == text.c_str() + text.size() && std::isfinite(number);
  return all ? std::optional(number) : std::nullopt;
}

bool SameNumber(double a, double b) {
  return std::abs(a - b) <= kNumberTolerance * std::max(std::abs(a), std::abs(b));
}

std::string PlainText(const Json& value) { return NormalizedAnswer(TextOrJson(value)); }

bool SameScalar(const Json& value, const Json& gold, const SlotType& type) {
  if (type == "boolean" || type == "date" || type == "enum") return value == gold;
  if (IsNumber(value) || IsNumber(gold) || type == "number" || type == "integer") {
    const std::optional<double> a = NumberOf(value), b = NumberOf(gold);
    if (a && b) return SameNumber(*a, *b);
  }
  return PlainText(value) == PlainText(gold);
}

std::multiset<std::string> PlainWords(const Json& value) {
  std::istringstream stream(PlainText(value));
  std::multiset<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

// Twice what both have, by what the two have together: the harmonic mean of precision and recall.
template <typename Set>
double Overlap(const Set& a, const Set& b) {
  std::vector<typename Set::value_type> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  const size_t together = a.size() + b.size();
  return together == 0 ? 0.0
                       : 2.0 * static_cast<double>(common.size()) / static_cast<double>(together);
}

// The same text for values that are the same: 12 and 12.0, "Sony" and "the SONY". Members of
// objects have an order of their own, and null ones are as good as none.
std::string Canonical(const Json& value) {
  if (value.is_object()) {
    std::string members;
    for (const auto& [name, member] : value.items()) {
      if (!member.is_null()) members += Json(name).dump() + ":" + Canonical(member) + ",";
    }
    return "{" + members + "}";
  }
  if (value.is_array()) {
    std::string items;
    for (const Json& item : value) items += Canonical(item) + ",";
    return "[" + items + "]";
  }
  const std::optional<double> number = IsNumber(value) ? NumberOf(value) : std::nullopt;
  return number ? Json(*number).dump() : Json(PlainText(value)).dump();
}

// The items of a list, the members of an object; a scalar is a list of one.
std::set<std::string> PartsOf(const Json& value) {
  std::set<std::string> parts;
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      if (!member.is_null()) parts.insert(Json(name).dump() + ":" + Canonical(member));
    }
    return parts;
  }
  if (!value.is_array()) return {Canonical(value)};
  for (const Json& item : value) parts.insert(Canonical(item));
  return parts;
}

SlotJudgement JudgeParts(const Json& value, const Json& gold) {
  const std::set<std::string> given = PartsOf(value), right = PartsOf(gold);
  if (given == right) return {SlotOutcome::kCorrect, 1.0};
  return {SlotOutcome::kIncorrect, Overlap(given, right)};
}

bool LooksLikeDate(const std::string& text) {
  if (text.size() != 10) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : (text[i] < '0' || text[i] > '9')) return false;
  }
  return true;
}

}  // namespace

SlotType SlotTypeOf(const ExtractAttribute& attribute) {
  Json schema = Json::parse(attribute.json_schema, nullptr, false);
  if (!schema.is_object()) return "text";
  for (const char* key : {"anyOf", "oneOf"}) {  // the first that is not null
    if (!schema.contains(key) || !schema.at(key).is_array()) continue;
    for (const Json& choice : schema.at(key)) {
      if (!choice.is_object() || choice.value("type", Json()) == Json("null")) continue;
      schema = Json(choice);
      break;
    }
  }
  if (schema.contains("enum")) return "enum";
  Json type = schema.value("type", Json());
  if (type.is_array()) {
    for (const Json& one : Json(type)) {
      if (one != Json("null")) type = one;
    }
  }
  if (!type.is_string()) return "text";
  const std::string name = type.get<std::string>();
  if (name == "string") return schema.value("format", Json()) == Json("date") ? "date" : "text";
  return name == "array" ? "list" : name;
}

SlotType GuessSlotType(const Json& gold) {
  if (gold.is_array() && !gold.empty()) return GuessSlotType(gold.front());
  if (IsNumber(gold)) return "number";
  if (gold.is_boolean()) return "boolean";
  return gold.is_string() && LooksLikeDate(gold.get_ref<const std::string&>()) ? "date" : "text";
}

SlotJudgement JudgeSlot(const Json& value, const Json& gold, const SlotType& type) {
  if (IsNothing(gold)) {
    return {value.is_null() ? SlotOutcome::kCorrectNull : SlotOutcome::kHallucinated, 0.0};
  }
  if (value.is_null()) return {SlotOutcome::kMissing, 0.0};
  if (type == "list" || (value.is_object() && gold.is_object())) return JudgeParts(value, gold);
  if (value.is_array()) {
    return gold.is_array() ? JudgeParts(value, gold) : SlotJudgement{SlotOutcome::kIncorrect, 0.0};
  }
  const std::vector<Json> spellings =
      gold.is_array() ? gold.get<std::vector<Json>>() : std::vector<Json>{gold};
  double share = 0.0;
  for (const Json& right : spellings) {
    if (SameScalar(value, right, type)) return {SlotOutcome::kCorrect, 1.0};
    if (type == "text") share = std::max(share, Overlap(PlainWords(value), PlainWords(right)));
  }
  return {SlotOutcome::kIncorrect, share};
}

}  // namespace banyan
