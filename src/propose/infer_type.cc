// Tries the types from the narrowest to text.
#include "propose/infer_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "propose/labels.h"
#include "values/convert.h"
#include "values/list_split.h"
#include "values/unit_table.h"
#include "values/value_text.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool Most(size_t fitting, size_t all) { return fitting > 0 && fitting * 5 >= all * 4; }

std::vector<ConvertedValue> ConvertAll(std::span<const std::string> values, ValueType type) {
  std::vector<ConvertedValue> converted;
  for (const std::string& value : values) {
    ValueWish wish;
    wish.type = type;
    ConvertedValue one = ConvertValue(value, wish);
    if (!one.value.is_null()) converted.push_back(std::move(one));
  }
  return converted;
}

size_t WordsIn(const std::string& value) { return FoldedWords(value).size(); }

bool AreBooleans(std::span<const std::string> values) {
  if (std::ranges::any_of(values, [](const std::string& v) { return WordsIn(v) > 3; }))
    return false;
  return Most(ConvertAll(values, ValueType::kBoolean).size(), values.size());
}

// "60 EUR", "€ 60", "approx. 3 kg", not "Model 200".
bool IsBareNumber(const std::string& value) {
  ValueWish wish;
  wish.type = ValueType::kNumber;
  const ConvertedValue number = ConvertValue(value, wish);
  if (number.value.is_null() || value.empty() || value.find(';') != std::string::npos) return false;
  if (value.size() > 1 && value[0] == '0' && value[1] >= '0' && value[1] <= '9') return false;
  const bool begins = HasDigit(value.substr(0, 1)) ||
                      static_cast<unsigned char>(value[0]) >= 0x80 ||
                      std::string_view("-+$(").find(value[0]) != std::string_view::npos;
  return (begins || !number.unit.empty()) && WordsIn(value) <= 4;
}

// The unit without "/month" after it.
const Unit* KnownUnit(const std::string& unit) {
  const Unit* known = FindUnit(unit);
  return known != nullptr ? known : FindUnit(unit.substr(0, unit.find('/')));
}

void AddUnits(const std::vector<ConvertedValue>& numbers, OrderedJson& type) {
  std::vector<std::pair<std::string, size_t>> counts;  // in the order of the values
  for (const ConvertedValue& number : numbers) {
    if (number.unit.empty()) continue;
    const Unit* unit = KnownUnit(number.unit);
    if (unit == nullptr) return;  // of words that only look like one
    const auto known =
        std::ranges::find(counts, unit->symbol, [](const auto& c) { return c.first; });
    if (known == counts.end()) {
      counts.emplace_back(unit->symbol, 1);
    } else {
      ++known->second;
    }
  }
  if (counts.empty()) return;
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  const Unit* common = FindUnit(most->first);
  if (common == nullptr) return;
  std::vector<std::string> symbols;
  bool one_dimension = true;
  for (const auto& [symbol, count] : counts) {
    const Unit* unit = FindUnit(symbol);
    one_dimension = one_dimension && unit != nullptr && CanConvert(*unit, *common);
    symbols.push_back(symbol);
  }
  type["type"] = "number";
  if (one_dimension) {
    type["unit"] = most->first;
  } else {
    type["units"] = symbols;
  }
}

bool TypeOfNumbers(std::span<const std::string> values, Expected expected, OrderedJson& type) {
  const bool wants =
      expected >= Expected::kNumber && expected != Expected::kCode && expected != Expected::kDate;
  if (!wants && expected != Expected::kAnything) return false;
  const auto fitting = static_cast<size_t>(std::ranges::count_if(values, IsBareNumber));
  if (!Most(fitting, values.size())) return false;
  const std::vector<ConvertedValue> numbers = ConvertAll(values, ValueType::kNumber);
  const bool whole = std::ranges::all_of(
      numbers, [](const ConvertedValue& number) { return number.value.is_number_integer(); });
  type = {{"type", whole && expected != Expected::kMoney ? "integer" : "number"}};
  AddUnits(numbers, type);
  return true;
}

bool TypeOfEnum(std::span<const std::string> values, OrderedJson& type) {
  constexpr size_t kLeastValues = 6, kMostAllowed = 5;
  std::map<std::string, std::vector<std::string>> same;  // by folded text
  for (const std::string& value : values) {
    if (WordsIn(value) > 3) return false;
    same[FoldedText(value)].push_back(value);
  }
  if (values.size() < kLeastValues || same.size() < 2 || same.size() > kMostAllowed ||
      values.size() < 3 * same.size()) {
    return false;
  }
  std::vector<std::string> allowed;
  for (const auto& [folded, spelled] : same) {
    if (spelled.size() < 2) return false;
    allowed.push_back(spelled.front());
  }
  type = {{"type", "enum"}, {"values", allowed}};
  return true;
}

bool AreLists(std::span<const std::string> values, Expected expected) {
  if (expected != Expected::kAnything && expected != Expected::kList) return false;
  size_t several = 0, most = 0;
  for (const std::string& value : values) {
    const std::vector<std::string> items = SplitList(value);
    several += items.size() > 1 ? 1 : 0;
    most = std::max(most, items.size());
    const bool listed = value.find("; ") != std::string::npos;
    for (const std::string& item : items) {
      if (items.size() > 1 && !listed && (WordsIn(item) > 4 || HasDigit(item))) return false;
    }
  }
  return several * 2 >= values.size() && most >= (expected == Expected::kList ? 2u : 3u);
}

}  // namespace

OrderedJson InferType(std::span<const std::string> values, Expected expected) {
  OrderedJson type = {{"type", "text"}};
  const bool open = expected == Expected::kAnything;
  if (values.empty()) return type;
  if (open && AreBooleans(values)) return {{"type", "boolean"}};
  if ((open || expected == Expected::kDate) &&
      Most(ConvertAll(values, ValueType::kDate).size(), values.size())) {
    return {{"type", "date"}};
  }
  if (TypeOfNumbers(values, expected, type)) return type;
  if ((open || expected == Expected::kWords) && TypeOfEnum(values, type)) return type;
  if (AreLists(values, expected)) return {{"type", "list"}, {"of", "text"}};
  return {{"type", "text"}};
}

std::string TypeWords(const OrderedJson& type) {
  const std::string name = type.at("type").get<std::string>();
  if (name == "list") return "list of " + type.at("of").get<std::string>();
  if (type.contains("unit"))
    return fmt::format("{} in {}", name, type.at("unit").get<std::string>());
  for (const char* key : {"units", "values"}) {
    if (!type.contains(key)) continue;
    return fmt::format("{} ({})", name,
                       fmt::join(type.at(key).get<std::vector<std::string>>(), ", "));
  }
  return name;
}

}  // namespace banyan
