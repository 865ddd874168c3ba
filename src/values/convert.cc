#include "values/convert.h"

#include "values/boolean.h"
#include "values/date.h"
#include "values/enum_match.h"
#include "values/number_value.h"
#include "values/value_text.h"

namespace banyan {

ConvertedValue ConvertValue(std::string_view raw, const ValueWish& wish) {
  if (wish.type != ValueType::kText && raw.size() > kMaxMentionBytes) {
    return {nullptr, "", QuotedMention(raw) + " is too long for a value"};
  }
  const bool sign = wish.type == ValueType::kEnum || wish.type == ValueType::kText;
  if (PlainText(raw).empty() && !sign) return {nullptr, "", "the text is empty"};
  switch (wish.type) {
    case ValueType::kText: {
      const std::string text = PlainText(raw);
      if (text.empty()) return {nullptr, "", "the text is empty"};
      return {text, "", ""};
    }
    case ValueType::kNumber:
    case ValueType::kInteger:
      return ConvertNumber(raw, wish);
    case ValueType::kBoolean:
      return ConvertBoolean(raw);
    case ValueType::kDate:
      return ConvertDate(raw, wish);
    case ValueType::kEnum:
      return ConvertEnum(raw, wish);
  }
  return {nullptr, "", "no such type"};
}

}  // namespace banyan
