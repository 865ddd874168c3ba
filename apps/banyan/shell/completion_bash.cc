#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "shell/completion.h"
#include "shell/completion_words.h"

namespace banyan::app {
namespace {

constexpr const char* kBashBegin =
    R"sh(# bash completion for banyan, made by: banyan completion bash
_banyan_none() { compopt +o default +o bashdefault 2>/dev/null; }
_banyan_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
  _banyan_none
}
_banyan_models() {
  local known
  known=$("${COMP_WORDS[0]}" model list --names 2>/dev/null)
  mapfile -t COMPREPLY < <(compgen -W "$known" -- "$cur"; compgen -f -- "$cur")
  compopt -o filenames 2>/dev/null
}
_banyan() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} typed='' i
  COMPREPLY=()
  # --name=value arrives as three words.
  if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$typed ${COMP_WORDS[i]}" in
)sh";

constexpr const char* kBashEnd = R"sh(  esac
}
complete -o default -o bashdefault -F _banyan banyan
)sh";

// What is done in a place of the command line. Files are what the shell completes by itself.
std::string BashActionOf(const Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::kNothing:
      return "_banyan_none";
    case Completion::Kind::kWords:
      return fmt::format("_banyan_words '{}'", fmt::join(completion.words, " "));
    case Completion::Kind::kModels:
      return "_banyan_models";
    case Completion::Kind::kFiles:
      break;
  }
  return ":";
}  // namespace banyan::app

std::string BashCaseOf(const TypedCommand& command) {
  std::vector<std::string> options;
  std::map<std::string, std::vector<std::string>> values;  // action → options
  for (const CLI::Option* option : NamedOptions(*command.app)) {
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    options.insert(options.end(), names.begin(), names.end());
    if (option->get_items_expected_max() == 0) continue;
    std::vector<std::string>& same = values[BashActionOf(ValueCompletion(*option))];
    same.insert(same.end(), names.begin(), names.end());
  }
  std::string text = fmt::format("    '{}')\n      case \"$prev\" in\n", command.typed);
  for (const auto& [action, names] : values) {
    text += fmt::format("        {}) {}; return ;;\n", fmt::join(names, " | "), action);
  }
  return text + fmt::format(
                    "      esac\n"
                    "      if [[ $cur == -* ]]; then _banyan_words '{}'; else {}; fi\n"
                    "      ;;\n",
                    fmt::join(options, " "), BashActionOf(command.arguments));
}

}  // namespace

std::string BashCompletion(const CLI::App& root) {
  const std::vector<TypedCommand> commands = TypedCommands(root);
  std::vector<std::string> typed;
  for (const TypedCommand& command : commands) {
    if (command.depth > 0) typed.push_back("'" + command.typed + "'");
  }
  std::string text = kBashBegin;
  text += fmt::format("      {}) typed+=\" ${{COMP_WORDS[i]}}\" ;;\n    esac\n  done\n",
                      fmt::join(typed, " | "));
  text += "  case \"$typed\" in\n";
  for (const TypedCommand& command : commands) text += BashCaseOf(command);
  return text + kBashEnd;
}

}  // namespace banyan::app
