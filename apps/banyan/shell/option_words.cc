// Types, ranges and defaults of options in words.
#include "shell/option_words.h"
#include "shell/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace banyan::app {
namespace {

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// CLI11 describes its ranges as "NONNEGATIVE", "POSITIVE" and "INT in [0 - 1024]"; those of tables
// (table_options.h) are words already.
std::string WordsOfRange(const std::string& description, bool whole) {
  if (description.starts_with("from ") || description.starts_with("above ")) return description;
  if (description == "NONNEGATIVE") return "from 0";
  if (description == "POSITIVE") return whole ? "from 1" : "above 0";
  const size_t open = description.find(" in [");
  const size_t dash = description.find(" - ", open);
  if (open == std::string::npos || dash == std::string::npos) return "";
  const size_t least = open + std::string_view(" in [").size();
  const size_t most = dash + std::string_view(" - ").size();
  return fmt::format("from {} to {}", description.substr(least, dash - least),
                     description.substr(most, description.size() - most - 1));
}

}  // namespace

OptionValue ValueOf(const CLI::Option& option) {
  OptionValue value;
  if (option.get_items_expected_max() == 0) {
    value.kind = ValueKind::kNone;
    return value;
  }
  const std::vector<std::string> parts = SplitAt(option.get_type_name(), ':');
  const std::string& type = parts.front();
  value.placeholder = type;
  if (type == "INT" || type == "UINT") {
    value.kind = ValueKind::kWholeNumber;
    value.placeholder = "N";
    if (type == "UINT") value.range = "from 0";
  } else if (type == "FLOAT") {
    value.kind = ValueKind::kNumber;
    value.placeholder = "X";
  } else if (type.find('|') != std::string::npos) {
    value.kind = ValueKind::kChoice;
    value.choices = SplitAt(type, '|');
    // "small|large|OWNER/NAME": a word in capitals stands for any other value.
    const auto stands_for_others = [](const std::string& choice) {
      const auto is_in = [&](char first, char last) {
        return std::ranges::any_of(choice, [&](char c) { return c >= first && c <= last; });
      };
      return is_in('A', 'Z') && !is_in('a', 'z');
    };
    if (std::erase_if(value.choices, stands_for_others) > 0) value.kind = ValueKind::kText;
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string range = WordsOfRange(parts[i], value.kind == ValueKind::kWholeNumber);
    if (!range.empty()) value.range = range;
  }
  return value;
}

std::string ExpectedValue(const CLI::Option& option) {
  const OptionValue value = ValueOf(option);
  const std::string range = value.range.empty() ? "" : " " + value.range;
  switch (value.kind) {
    case ValueKind::kNone:
      return "no value";
    case ValueKind::kWholeNumber:
      return "a whole number" + range;
    case ValueKind::kNumber:
      return "a number" + range;
    case ValueKind::kChoice:
      return fmt::format("one of {}", fmt::join(value.choices, ", "));
    case ValueKind::kText:
      break;
  }
  return "a value";
}

std::string NamesOf(const CLI::Option& option) {
  if (option.get_positional() && option.get_lnames().empty() && option.get_snames().empty()) {
    return option.get_name(true);
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string DescriptionOf(const CLI::Option& option) {
  const OptionValue value = ValueOf(option);
  std::vector<std::string> unsaid;
  // That a number is not negative goes without saying.
  if (!value.range.empty() && value.range != "from 0") unsaid.push_back(value.range);
  if (value.kind != ValueKind::kNone && !option.get_default_str().empty()) {
    unsaid.push_back("default: " + option.get_default_str());
  }
  if (option.get_required()) unsaid.push_back("required");
  std::string text = option.get_description();
  if (unsaid.empty()) return text;
  if (!text.empty()) text += ' ';
  return fmt::format("{}({})", text, fmt::join(unsaid, "; "));
}

std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

std::vector<const CLI::App*> ShownCommands(const CLI::App& command) {
  return command.get_subcommands(
      [](const CLI::App* sub) { return !sub->get_group().empty() && !sub->get_name().empty(); });
}

std::vector<const CLI::Option*> ShownOptions(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_group() != kHiddenGroup;
  });
}

}  // namespace banyan::app
