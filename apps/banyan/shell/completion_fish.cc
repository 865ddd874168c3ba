#include <fmt/format.h>

#include <string>
#include <vector>

#include "shell/completion.h"
#include "shell/completion_words.h"
#include "shell/option_words.h"

namespace banyan::app {
namespace {

std::string FishQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// The condition under which `command` is the one that was typed.
std::string ConditionOf(const TypedCommand& command) {
  std::string condition;
  for (const CLI::App* app = command.app; app->get_parent() != nullptr; app = app->get_parent()) {
    condition = fmt::format("__fish_seen_subcommand_from {}{}{}", app->get_name(),
                            condition.empty() ? "" : "; and ", condition);
  }
  std::vector<std::string> below;
  for (const CLI::App* sub : ShownCommands(*command.app)) below.push_back(sub->get_name());
  if (below.empty()) return condition;
  return fmt::format("{}{}not __fish_seen_subcommand_from {}", condition,
                     condition.empty() ? "" : "; and ", fmt::join(below, " "));
}

// -x: a value and no files; -r: a value, files too.
std::string ValueOptions(const Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::kNothing:
      return " -x";
    case Completion::Kind::kWords:
      return " -x -a " + FishQuoted(fmt::format("{}", fmt::join(completion.words, " ")));
    case Completion::Kind::kModels:
      return " -r -a '(banyan model list --names 2>/dev/null)'";
    case Completion::Kind::kFiles:
      break;
  }
  return " -r";
}

std::string LinesOf(const TypedCommand& command) {
  const std::string begin =
      fmt::format("complete -c banyan -n {}", FishQuoted(ConditionOf(command)));
  std::string text;
  for (const CLI::App* sub : ShownCommands(*command.app)) {
    text += fmt::format("{} -f -a {} -d {}\n", begin, sub->get_name(),
                        FishQuoted(ShortDescription(sub->get_description())));
  }
  if (text.empty()) {
    switch (command.arguments.kind) {
      case Completion::Kind::kNothing:
        text += begin + " -f\n";
        break;
      case Completion::Kind::kWords:
        text += fmt::format("{} -f -a {}\n", begin,
                            FishQuoted(fmt::format("{}", fmt::join(command.arguments.words, " "))));
        break;
      case Completion::Kind::kModels:
        text += begin + " -a '(banyan model list --names 2>/dev/null)'\n";
        break;
      case Completion::Kind::kFiles:
        break;
    }
  }
  for (const CLI::Option* option : NamedOptions(*command.app)) {
    text += begin;
    for (const std::string& name : option->get_snames()) text += " -s " + name;
    for (const std::string& name : option->get_lnames()) text += " -l " + name;
    if (option->get_items_expected_max() > 0) text += ValueOptions(ValueCompletion(*option));
    text += fmt::format(" -d {}\n", FishQuoted(ShortDescription(option->get_description())));
  }
  return text;
}

}  // namespace

std::string FishCompletion(const CLI::App& root) {
  std::string text = "# fish completion for banyan, made by: banyan completion fish\n";
  for (const TypedCommand& command : TypedCommands(root)) text += LinesOf(command);
  return text;
}

}  // namespace banyan::app
