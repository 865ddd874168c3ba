#include "tasks/options/task_options.h"

#include "base/error.h"
#include "tasks/prompt/text_parameter.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// A bound such as 0.01 is another number once a float has held it.
bool IsBound(const OptionFacts& facts, double value) {
  const auto narrow = static_cast<float>(value);
  return narrow == static_cast<float>(facts.least) ||
         (facts.bounded && narrow == static_cast<float>(facts.most));
}

void CheckNumber(const OptionFacts& facts, bool good, const char* kind, const OptionData& data) {
  if (good) return;
  Throw(ErrorKind::kUsage, "{}: expected {} {}, found {}", IdentityName(facts), kind,
        RangeWords(facts), DataText(data));
}

}  // namespace

void CheckValue(const OptionFacts& facts, const OptionData& data) {
  if (const auto* whole = std::get_if<std::int64_t>(&data)) {
    CheckNumber(facts, InRange(facts, *whole), "a whole number", data);
  } else if (const auto* number = std::get_if<double>(&data)) {
    const bool good = InRange(facts, *number) || (!facts.above && IsBound(facts, *number));
    CheckNumber(facts, good, "a number", data);
  } else if (const auto* text = std::get_if<std::string>(&data)) {
    if (!IsValidUtf8(*text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", IdentityName(facts));
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&data)) {
    for (const std::string& one : *texts) {
      if (!one.empty() && IsValidUtf8(one)) continue;
      Throw(ErrorKind::kUsage, "{}: expected a text that is not empty, in UTF-8",
            IdentityName(facts));
    }
  }
}

std::string IdentityName(const OptionFacts& facts) {
  const bool reversed =
      facts.style == CommandStyle::kOnlyNo || facts.style == CommandStyle::kZeroOrOne;
  if (reversed) return CommandName(facts);
  std::string name = "--";
  for (const char c : facts.name) name += c == '_' ? '-' : c;
  return name;
}

Json IdentityValue(const OptionFacts& facts, const OptionData& data) {
  if (const auto* text = std::get_if<std::string>(&data)) {
    const bool is_text = facts.kind == OptionKind::kText || facts.kind == OptionKind::kJson;
    return is_text && !facts.whole_in_identity ? TextParameter(*text) : Json(*text);
  }
  if (const auto* flag = std::get_if<bool>(&data)) {
    if (facts.style == CommandStyle::kOnOff) return *flag ? "on" : "off";
    return facts.style == CommandStyle::kOnlyNo ? !*flag : *flag;
  }
  return std::visit([](const auto& value) { return Json(value); }, data);
}

}  // namespace banyan
