#include "shell/completion_words.h"

#include <algorithm>
#include <string_view>

#include "shell/option_words.h"

namespace banyan::app {
namespace {

std::vector<std::string> NamesOfCommands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : ShownCommands(command)) names.push_back(sub->get_name());
  return names;
}

Completion ArgumentsOf(const CLI::App& command) {
  if (!ShownCommands(command).empty()) {
    return {Completion::Kind::kWords, NamesOfCommands(command)};
  }
  if (command.get_name() == "help") {
    return {Completion::Kind::kWords, NamesOfCommands(*command.get_parent())};
  }
  for (const CLI::Option* option : ShownOptions(command)) {
    if (option->get_positional()) return ValueCompletion(*option);
  }
  return {Completion::Kind::kNothing, {}};
}

void AddBelow(const CLI::App& command, const std::string& typed, size_t depth,
              std::vector<TypedCommand>& all) {
  all.push_back({&command, typed, ArgumentsOf(command), depth});
  for (const CLI::App* sub : ShownCommands(command)) {
    AddBelow(*sub, typed + " " + sub->get_name(), depth + 1, all);
  }
}

}  // namespace

std::vector<TypedCommand> TypedCommands(const CLI::App& root) {
  std::vector<TypedCommand> all;
  AddBelow(root, "", 0, all);
  return all;
}

Completion ValueCompletion(const CLI::Option& option) {
  const OptionValue value = ValueOf(option);
  const bool model = option.check_lname("model") || option.get_name(true) == "model";
  if (model) return {Completion::Kind::kModels, {}};
  switch (value.kind) {
    case ValueKind::kChoice:
      return {Completion::Kind::kWords, value.choices};
    case ValueKind::kText:
      return {Completion::Kind::kFiles, {}};
    default:
      return {Completion::Kind::kNothing, {}};
  }
}

std::vector<const CLI::Option*> NamedOptions(const CLI::App& command) {
  std::vector<const CLI::Option*> named = ShownOptions(command);
  std::erase_if(named, [](const CLI::Option* option) { return !option->nonpositional(); });
  return named;
}

std::string ShortDescription(const std::string& description) {
  size_t end = description.size();
  for (const std::string_view mark : {"; ", ". ", "\n"}) {
    end = std::min(end, description.find(mark));
  }
  return description.substr(0, end);
}

}  // namespace banyan::app
