// Errors of the command line as messages: what was expected and found, and the nearest name.
#include "shell/parse_message.h"
#include "shell/help.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "program/near_names.h"
#include "program/options.h"
#include "shell/option_words.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

// The version that no longer takes knobs of comparisons on commands that do not show them.
constexpr const char* kMovedOptionsEnd = "0.4.0";

// "ask: " before a message about a command; nothing before one about the program itself.
std::string Subject(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return "";
  return (parent->get_parent() == nullptr ? "" : parent->get_name() + " ") + command.get_name() +
         ": ";
}

std::string DidYouMean(const std::string& nearest) {
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::vector<std::string> LongNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : ShownOptions(command)) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

// The commands that have an option of this name: "ask, ids".
std::string CommandsWith(const CLI::App& root, const std::string& name) {
  std::vector<std::string> commands;
  for (const CLI::App* command : ShownCommands(root)) {
    if (command->get_option_no_throw(name) != nullptr) commands.push_back(command->get_name());
  }
  return fmt::format("{}", fmt::join(commands, ", "));
}

// What other commands, the server and other programs call an option.
std::string KnownElsewhereAs(const CLI::App& command, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"max-tokens", "max-new"},
      {"max-new", "max-tokens"},
      {"max-new-tokens", "max-new"},
      {"max-new-tokens", "max-tokens"},
      {"force", "overwrite"},
      {"replace", "overwrite"},
      {"out", "output"},
      {"host", "address"},
  };
  const std::vector<std::string> known = LongNames(command);
  for (const auto& [other, own] : kSame) {
    if (name == other && std::ranges::find(known, own) != known.end()) return std::string(own);
  }
  return "";
}

// Options that earlier versions had, and what to do instead.
struct RemovedOption {
  std::string_view name, value;  // an empty value: the whole option
  std::string_view instead;
};
constexpr RemovedOption kRemovedOptions[] = {
    {"--price-per-hour", "",
     "the receipt has the seconds and the rows; 1000 rows cost price x seconds / 3600 x 1000 / "
     "rows"},
    {"--abstention-scope", "",
     "experts abstain from the first token only; leave the option out, or give --abstention 0 to "
     "let all of them vote"},
    {"--vectors", "flat", "use --vectors exact, which finds the same passages"},
};

// "--vectors flat was removed: use …"; empty: there was no such option.
std::string WasRemoved(std::string_view name, std::string_view value) {
  for (const RemovedOption& removed : kRemovedOptions) {
    if (name != removed.name || (!removed.value.empty() && value != removed.value)) continue;
    return fmt::format("{}{}{} was removed: {}", removed.name, removed.value.empty() ? "" : " ",
                       removed.value, removed.instead);
  }
  return "";
}

std::string NoSuchOption(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (const std::string removed = WasRemoved(name, ""); !removed.empty()) {
    return Subject(command) + removed;
  }
  if (command.get_parent() == nullptr) {
    if (const std::string commands = CommandsWith(command, name); !commands.empty()) {
      return fmt::format("{}: an option of {}; it stands after the command", name, commands);
    }
  }
  // The dashes say nothing about what was meant.
  const size_t letters = std::min(name.find_first_not_of('-'), name.size());
  std::string nearest = KnownElsewhereAs(command, std::string_view(name).substr(letters));
  if (nearest.empty()) nearest = NearestName(name.substr(letters), LongNames(command));
  return fmt::format("{}no option '{}'{}", Subject(command), name,
                     DidYouMean(nearest.empty() ? "" : "--" + nearest));
}

// What was left over when everything known had been taken.
std::string Unexpected(const CLI::App& command, const std::string& word) {
  if (word.size() > 1 && word.front() == '-') return NoSuchOption(command, word);
  if (!ShownCommands(command).empty()) return NoSuchCommand(command, word);
  return fmt::format("{}unexpected argument '{}'", Subject(command), word);
}

// The option whose name stands at the beginning of `text`, before `end`.
const CLI::Option* NamedOption(const CLI::App& command, std::string_view text,
                               std::string_view end) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!name.empty() && text.starts_with(name) && text.substr(name.size()).starts_with(end)) {
      return option;
    }
  }
  return nullptr;
}

std::string Expected(const CLI::Option& option, const std::string& found) {
  const bool too_large =
      !found.empty() && std::ranges::all_of(found, [](unsigned char c) { return std::isdigit(c); });
  if (ValueOf(option).kind == ValueKind::kWholeNumber && too_large && found.size() >= 10) {
    return fmt::format("{}: expected {}, found {}, which is too large", option.get_name(),
                       ExpectedValue(option), found);
  }
  const bool list = ValueOf(option).kind == ValueKind::kChoice;
  return fmt::format("{}: expected {}{} found '{}'", option.get_name(), ExpectedValue(option),
                     list ? ";" : ",", found);
}

// A value that a check refused. Ranges say "Value X not in range A to B"; other checks have words
// of their own.
std::string RefusedValue(const CLI::App& command, const std::string& text) {
  const CLI::Option* option = NamedOption(command, text, ": ");
  if (option == nullptr) return text;
  constexpr std::string_view kBefore = "Value ", kAfter = " not in range ";
  const std::string message = text.substr(option->get_name().size() + 2);
  const size_t after = message.rfind(kAfter);
  if (!message.starts_with(kBefore) || after == std::string::npos) return text;
  return Expected(*option, message.substr(kBefore.size(), after - kBefore.size()));
}

// "Could not convert: NAME = VALUES"
std::string NotConverted(const CLI::App& command, const std::string& text) {
  constexpr std::string_view kBefore = "Could not convert: ";
  if (!text.starts_with(kBefore)) return text;
  const std::string rest = text.substr(kBefore.size());
  const CLI::Option* option = NamedOption(command, rest, " = ");
  if (option == nullptr) return text;
  return Expected(*option, rest.substr(option->get_name().size() + 3));
}

// "NAME: 1 required TYPE missing", "NAME: At Most 1 required but received 2", "NAME: At least …"
std::string WrongCount(const CLI::App& command, const std::string& text) {
  const CLI::Option* option = NamedOption(command, text, ": ");
  if (option == nullptr) return text;
  if (text.ends_with(" missing")) {
    return fmt::format("{}: expected {}, found nothing", option->get_name(),
                       ExpectedValue(*option));
  }
  const int expected = option->get_items_expected_max();
  return fmt::format("{}: expected {}, found {}", option->get_name(),
                     expected == 1 ? "one value" : fmt::format("{} values", expected),
                     option->results().size());
}

std::string Missing(const CLI::App& command, const std::string& text) {
  const std::vector<const CLI::App*> commands = ShownCommands(command);
  if (text.starts_with("A subcommand") && !commands.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* sub : commands) names.push_back(sub->get_name());
    return fmt::format("{}expected a command: {}", Subject(command), fmt::join(names, ", "));
  }
  const CLI::Option* option = NamedOption(command, text, " is required");
  if (option == nullptr) return text;
  return fmt::format("{}expected '{}': {}", Subject(command), option->get_name(),
                     option->get_description());
}

// "A VERB B" → the message with both names.
std::string TwoOptions(const std::string& text, std::string_view verb, const char* message) {
  const size_t at = text.find(verb);
  if (at == std::string::npos) return text;
  return fmt::format(fmt::runtime(message), text.substr(0, at), text.substr(at + verb.size()));
}

std::string WhatIsWrong(const CLI::App& command, const CLI::ParseError& error) {
  const std::string text = error.what();
  // Left over words come first: an argument that is missing may be one of them, misspelt.
  if (const auto left = command.remaining(); !left.empty())
    return Unexpected(command, left.front());
  const std::string kind = error.get_name();
  if (kind == "ValidationError") return RefusedValue(command, text);
  if (kind == "ConversionError") return NotConverted(command, text);
  if (kind == "ArgumentMismatch") return WrongCount(command, text);
  if (kind == "RequiredError") return Missing(command, text);
  if (kind == "ExcludesError") {
    return TwoOptions(text, " excludes ", "{} and {}: expected only one of them");
  }
  if (kind == "RequiresError") return TwoOptions(text, " requires ", "{}: expected {} as well");
  return text;
}

}  // namespace

std::string NoSuchCommand(const CLI::App& command, const std::string& word) {
  // Names, and what is typed for them: "get" is also looked for as "model get".
  std::vector<std::string> names, typed;
  for (const CLI::App* sub : ShownCommands(command)) {
    names.push_back(sub->get_name());
    typed.push_back(sub->get_name());
  }
  for (const CLI::App* sub : ShownCommands(command)) {
    for (const CLI::App* below : ShownCommands(*sub)) {
      names.push_back(below->get_name());
      typed.push_back(sub->get_name() + " " + below->get_name());
    }
  }
  std::string nearest = NearestName(word, names);
  if (!nearest.empty()) nearest = typed[std::ranges::find(names, nearest) - names.begin()];
  std::error_code ignored;
  if (nearest.empty() && command.get_parent() == nullptr &&
      std::filesystem::exists(word, ignored)) {
    nearest = "banyan ask " + word;
  }
  if (nearest.empty() && command.get_parent() != nullptr && !names.empty()) {
    return fmt::format("{}no command '{}'; expected one of {}", Subject(command), word,
                       fmt::join(names, ", "));
  }
  return fmt::format("{}no command '{}'{}", Subject(command), word, DidYouMean(nearest));
}

std::string WhereToReadOn(const CLI::App& command) {
  return fmt::format("Try '{} --help'.", FullName(command));
}

const CLI::App& ChosenCommand(const CLI::App& root) {
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

std::string ParseMessage(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = ChosenCommand(root);
  // Left over words come first: an argument that is missing may be one of them, misspelt.
  for (const CLI::App* place = &command; place != nullptr; place = place->get_parent()) {
    if (const auto left = place->remaining(); !left.empty()) {
      return Unexpected(*place, left.front()) + "\n" + WhereToReadOn(*place);
    }
  }
  return WhatIsWrong(command, error) + "\n" + WhereToReadOn(command);
}

void WarnOfMovedOptions(const CLI::App& root) {
  const CLI::App& command = ChosenCommand(root);
  for (const OptionFacts& facts : EngineTable()) {
    if (!facts.for_comparison) continue;
    const CLI::Option* option = command.get_option_no_throw(CommandName(facts));
    if (option == nullptr || option->get_group() != kHiddenGroup || option->count() == 0) continue;
    Say(fmt::format("{}: {} moved to `banyan bench` and will be refused from {}\n",
                    FullName(command), CommandName(facts), kMovedOptionsEnd));
  }
}

void CheckValues(const CLI::App& root) {
  for (const CLI::Option* option : ChosenCommand(root).get_options()) {
    const OptionValue value = ValueOf(*option);
    for (const std::string& found : option->results()) {
      const bool wrong =
          (value.kind == ValueKind::kChoice && std::ranges::count(value.choices, found) == 0) ||
          (value.kind == ValueKind::kNumber && !std::isfinite(std::strtod(found.c_str(), nullptr)));
      if (!wrong) continue;
      const std::string removed = WasRemoved(option->get_name(), found);
      throw Error(ErrorKind::kUsage, removed.empty() ? Expected(*option, found) : removed);
    }
  }
}

}  // namespace banyan::app
