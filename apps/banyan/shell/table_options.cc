// Rows of the option table as options of CLI11, and reading their texts from files.
#include "shell/table_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <fstream>
#include <sstream>

#include "banyan/error.h"

namespace banyan::app {
namespace {

// --max-new, or with its other spellings: "--copy,!--no-copy".
std::string NamesToAdd(const OptionFacts& facts) {
  if (facts.style == CommandStyle::kOnlyNo) return "!" + CommandName(facts);
  if (!facts.command_names.empty()) return facts.command_names;
  const std::string name = CommandName(facts);
  return facts.style == CommandStyle::kYesOrNo ? name + ",!--no-" + name.substr(2) : name;
}

// As help and completion read it (option_words.h).
std::string TypeName(const OptionFacts& facts) {
  if (!facts.placeholder.empty()) return facts.placeholder;
  switch (facts.style) {
    case CommandStyle::kOnOff:
      return "on|off";
    case CommandStyle::kFile:
    case CommandStyle::kInlineOrFile:
      return "FILE";
    default:
      break;
  }
  switch (facts.kind) {
    case OptionKind::kFlag:  // of kZeroOrOne
    case OptionKind::kWhole:
      return "INT";
    case OptionKind::kNumber:
      return "FLOAT";
    case OptionKind::kName:
      return fmt::format("{}", fmt::join(facts.names, "|"));
    default:
      return "TEXT";
  }
}

template <typename Value>
std::optional<Value> Converted(const std::string& text) {
  Value value{};
  if (!CLI::detail::lexical_cast(text, value)) return std::nullopt;
  return value;
}

// A value that no message names but for its range, in the words of CLI11's own checks.
CLI::Validator RangeCheck(const OptionFacts& facts) {
  const std::string range =
      facts.style == CommandStyle::kZeroOrOne ? "from 0 to 1" : RangeWords(facts);
  return CLI::Validator(
      [&facts, range](std::string& text) {
        return DataOf(facts, text) ? std::string()
                                   : fmt::format("Value {} not in range {}", text, range);
      },
      range);
}

void SetFrom(const BoundOption& option, const OptionData& data) {
  try {
    option.set(data, CommandName(*option.facts));
  } catch (const Error& error) {  // a text that no check of CLI11 knows
    throw CLI::ValidationError(error.what());
  }
}

}  // namespace

std::string ReadOptionFile(const std::string& path, const char* option) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: {}: cannot read the file", option, path));
  }
  return text.str();
}

std::optional<OptionData> DataOf(const OptionFacts& facts, const std::string& text) {
  if (facts.style == CommandStyle::kOnOff) {
    if (text != "on" && text != "off") return std::nullopt;
    return text == "on";
  }
  switch (facts.kind) {
    case OptionKind::kFlag: {  // of kZeroOrOne
      if (text != "0" && text != "1") return std::nullopt;
      return text == "1";
    }
    case OptionKind::kWhole: {
      const auto value = Converted<std::int64_t>(text);
      if (!value || !InRange(facts, *value)) return std::nullopt;
      return *value;
    }
    case OptionKind::kNumber: {
      const auto value = Converted<double>(text);
      if (!value || !InRange(facts, *value)) return std::nullopt;
      return *value;
    }
    default:
      return text;
  }
}

CLI::Option* AddValuesOf(CLI::App& command, const OptionFacts& facts,
                         std::vector<std::string>& values, const std::string& also) {
  CLI::Option* option = command.add_option(CommandName(facts), values)->delimiter(',');
  option->type_name(also.empty() ? TypeName(facts) : "TEXT")->capture_default_str();
  if (facts.kind != OptionKind::kWhole && facts.kind != OptionKind::kNumber) return option;
  CLI::Validator check = RangeCheck(facts);
  if (!also.empty()) check = check | CLI::IsMember({also});
  return option->check(check);
}

void TableOptions::AddTo(CLI::App& command, const BoundOptions& options,
                         const std::vector<std::string>& from, const std::string& group) {
  for (const BoundOption& option : options) {
    const OptionFacts& facts = *option.facts;
    if ((facts.interfaces & kCommandLine) == 0) continue;
    if (!from.empty() && std::ranges::count(from, facts.group) == 0) continue;
    Add(command, option, group.empty() ? facts.group : group);
  }
}

void TableOptions::Add(CLI::App& command, const BoundOption& option, const std::string& group) {
  const OptionFacts& facts = *option.facts;
  const bool numbered =
      facts.style == CommandStyle::kOnOff || facts.style == CommandStyle::kZeroOrOne;
  if (facts.kind == OptionKind::kFlag && !numbered) {
    command
        .add_flag_function(
            NamesToAdd(facts), [option](std::int64_t count) { SetFrom(option, count > 0); },
            facts.help)
        ->group(group);
    return;
  }
  CLI::callback_t take = [option](const CLI::results_t& found) {
    const OptionFacts& known = *option.facts;
    if (known.kind == OptionKind::kTexts) {
      SetFrom(option, std::vector<std::string>(found));
      return true;
    }
    const std::optional<OptionData> data = DataOf(known, found.front());
    if (data) SetFrom(option, *data);
    return data.has_value();
  };
  const bool file = facts.style == CommandStyle::kTextOrFile ||
                    facts.style == CommandStyle::kFile ||
                    facts.style == CommandStyle::kInlineOrFile;
  if (file) {
    const size_t index = texts_.size();
    texts_.push_back({option, std::nullopt});
    take = [this, index](const CLI::results_t& found) {
      texts_[index].words = found.front();
      return true;
    };
  }
  const auto add = [&](const std::string& names, const std::string& where) {
    CLI::Option* added = command.add_option(names, take, facts.help);
    added->type_name(TypeName(facts))->group(where);
    if (facts.kind == OptionKind::kTexts) {
      added->expected(1, CLI::detail::expected_max_vector_size)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (facts.delimiter == 0) added->allow_extra_args(false);
      if (facts.delimiter != 0) added->delimiter(facts.delimiter);
    }
    const bool checked =
        facts.ranged || facts.kind == OptionKind::kWhole || facts.style == CommandStyle::kZeroOrOne;
    if (checked && facts.kind != OptionKind::kNameOrNumber && facts.kind != OptionKind::kBytes) {
      added->check(RangeCheck(facts));
    }
    // A flag is shown as the command line writes it.
    const bool shown = facts.show_default && facts.default_value && option.now;
    const auto* flag = shown ? std::get_if<bool>(&*option.now) : nullptr;
    if (flag != nullptr) {
      added->default_str(*flag ? "on" : "off");
    } else if (shown) {
      added->default_str(DataText(*option.now));
    }
  };
  add(NamesToAdd(facts), group);
  for (const std::string& alias : facts.aliases) {
    std::string name = "--" + alias;
    std::ranges::replace(name, '_', '-');
    if (facts.command_names.find(name) == std::string::npos) add(name, "");
  }
}

std::string TableOptions::Given(const std::string& name) const {
  for (const Text& text : texts_) {
    if (text.option.facts->name == name) return text.words.value_or("");
  }
  return "";
}

void TableOptions::ReadFiles(
    const std::function<void(const std::string&, const std::string&)>& read) {
  for (const Text& text : texts_) {
    const OptionFacts& facts = *text.option.facts;
    if (!text.words || (text.words->empty() && facts.style != CommandStyle::kTextOrFile)) continue;
    const std::string& words = *text.words;
    std::string called = "--" + facts.name;
    std::ranges::replace(called, '_', '-');
    const size_t first = words.find_first_not_of(" \t\r\n");
    const bool is_inline = facts.style == CommandStyle::kInlineOrFile &&
                           first != std::string::npos && words[first] == '{';
    std::string path;
    if (facts.style == CommandStyle::kTextOrFile) {
      if (words.starts_with('@')) path = words.substr(1);
    } else if (!is_inline) {
      path = words;
    }
    std::string value = path.empty() ? words : ReadOptionFile(path, called.c_str());
    if (facts.kind == OptionKind::kJson && facts.style == CommandStyle::kFile && value.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("{}: {}: the file is empty", called, words));
    }
    text.option.set(value, called);
    if (!path.empty()) read(called, path);
  }
}

}  // namespace banyan::app
