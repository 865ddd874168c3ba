// Texts of any bytes as typed values: every one is valid JSON of its type or null with a reason,
// days exist, numbers are finite, integers are integers, enums are allowed. A first line with a '='
// names the wanted unit and the allowed values: "unit=value,value".
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"
#include "values/convert.h"
#include "values/date.h"
#include "values/list_split.h"

namespace {

using banyan::ConvertedValue;
using banyan::ValueType;
using banyan::ValueWish;

bool IsIsoDay(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  return banyan::IsDay(std::stoi(text.substr(0, 4)), std::stoi(text.substr(5, 2)),
                       std::stoi(text.substr(8, 2)));
}

bool FitsWish(const nlohmann::ordered_json& value, const ValueWish& wish) {
  switch (wish.type) {
    case ValueType::kText:
      return value.is_string() && !value.get<std::string>().empty();
    case ValueType::kNumber:
      return value.is_number() && std::isfinite(value.get<double>());
    case ValueType::kInteger:
      return value.is_number_integer();
    case ValueType::kBoolean:
      return value.is_boolean();
    case ValueType::kDate:
      return value.is_string() && IsIsoDay(value.get<std::string>());
    case ValueType::kEnum:
      return value.is_string() && std::find(wish.allowed.begin(), wish.allowed.end(),
                                            value.get<std::string>()) != wish.allowed.end();
  }
  return false;
}

void CheckConversion(std::string_view raw, const ValueWish& wish) {
  const ConvertedValue converted = banyan::ConvertValue(raw, wish);
  BANYAN_CHECK(converted.value.is_null() != converted.reason.empty());
  BANYAN_CHECK(converted.value.is_null() || FitsWish(converted.value, wish));
  BANYAN_CHECK(banyan::IsValidUtf8(converted.unit) && banyan::IsValidUtf8(converted.reason));
  const std::string json = converted.value.dump();  // throws on ill-formed text
  BANYAN_CHECK(nlohmann::ordered_json::parse(json) == converted.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view raw(reinterpret_cast<const char*>(data), size);
  ValueWish wish;
  const size_t line = raw.find('\n');
  const std::string_view first = raw.substr(0, line == std::string_view::npos ? 0 : line);
  if (const size_t equals = first.find('='); equals != std::string_view::npos) {
    std::string unit(first.substr(0, equals));
    if (banyan::IsValidUtf8(first)) {
      wish.unit = unit;
      wish.allowed = banyan::SplitList(first.substr(equals + 1));
    }
    raw.remove_prefix(line + 1);
  }
  for (const ValueType type : {ValueType::kText, ValueType::kNumber, ValueType::kInteger,
                               ValueType::kBoolean, ValueType::kDate, ValueType::kEnum}) {
    wish.type = type;
    CheckConversion(raw, wish);
  }
  wish.month_first = true;
  wish.type = ValueType::kDate;
  CheckConversion(raw, wish);
  for (const std::string& item : banyan::SplitList(raw)) {
    BANYAN_CHECK(!item.empty() && banyan::IsValidUtf8(item));
  }
  return 0;
}
