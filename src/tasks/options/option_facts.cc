#include "program/option_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <type_traits>

namespace banyan {

std::string CommandName(const OptionFacts& facts) {
  if (!facts.command_names.empty()) {
    const size_t begin = facts.command_names.find("--");
    return facts.command_names.substr(begin, facts.command_names.find(',', begin) - begin);
  }
  std::string name = facts.style == CommandStyle::kOnlyNo ? "--no-" : "--";
  for (const char c : facts.name) name += c == '_' ? '-' : c;
  return name;
}

const std::string& HttpName(const OptionFacts& facts) {
  return facts.http_name.empty() ? facts.name : facts.http_name;
}

std::string RangeWords(const OptionFacts& facts) {
  if (!facts.ranged) return "";
  if (facts.above) return fmt::format("above {}", facts.least);
  // In full, not 1e+06.
  const auto text = [](double value) {
    return value == static_cast<double>(static_cast<std::int64_t>(value))
               ? std::to_string(static_cast<std::int64_t>(value))
               : fmt::format("{}", value);
  };
  return "from " + text(facts.least) + (facts.bounded ? " to " + text(facts.most) : "");
}

bool InRange(const OptionFacts& facts, double value) {
  if (!facts.ranged) return true;
  const bool enough = facts.above ? value > facts.least : value >= facts.least;
  return enough && (!facts.bounded || value <= facts.most);
}

bool InRange(const OptionFacts& facts, std::int64_t value) {
  if (facts.field_most > 0 && (value > facts.field_most || value < -facts.field_most)) return false;
  return InRange(facts, static_cast<double>(value));
}

std::string DataText(const OptionData& data) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return fmt::format("{}", fmt::join(value, ","));
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else {
          return fmt::format("{}", value);
        }
      },
      data);
}

BoundOptions OnlyNamed(BoundOptions options, const std::vector<std::string>& names) {
  std::erase_if(options, [&](const BoundOption& option) {
    return std::ranges::find(names, option.facts->name) == names.end();
  });
  return options;
}

std::string HelpElsewhere(const OptionFacts& facts) {
  if (!facts.other_help.empty()) return facts.other_help;
  const std::string& help = facts.help;
  std::string text;
  for (size_t i = 0; i < help.size(); ++i) {
    const bool name = help.compare(i, 2, "--") == 0 && i + 2 < help.size() &&
                      std::islower(static_cast<unsigned char>(help[i + 2])) != 0;
    if (!name) {
      text += help[i];
      continue;
    }
    i += 2;
    for (; i < help.size(); ++i) {
      const auto c = static_cast<unsigned char>(help[i]);
      if (std::islower(c) == 0 && std::isdigit(c) == 0 && c != '-') break;
      text += c == '-' ? '_' : static_cast<char>(c);
    }
    --i;
  }
  return text;
}

}  // namespace banyan
