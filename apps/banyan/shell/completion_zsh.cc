#include <fmt/format.h>

#include <string>
#include <vector>

#include "shell/completion.h"
#include "shell/completion_words.h"
#include "shell/option_words.h"

namespace banyan::app {
namespace {

constexpr const char* kZshBegin = R"sh(#compdef banyan
# zsh completion for banyan, made by: banyan completion zsh
_banyan_models() {
  local -a known
  known=(${(f)"$(banyan model list --names 2>/dev/null)"})
  compadd -a known
  _files
}
_banyan() {
  local typed='' i
  for ((i = 2; i < CURRENT; i++)); do
    case "$typed $words[i]" in
)sh";

constexpr const char* kZshEnd = R"sh(  esac
}
if [[ $funcstack[1] == _banyan ]]; then _banyan "$@"; else compdef _banyan banyan; fi
)sh";

std::string ZshQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// A backslash before each of `special`.
std::string Escaped(const std::string& text, const std::string& special) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ZshActionOf(const Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::kNothing:
      return " ";  // a message, and nothing to choose from
    case Completion::Kind::kWords:
      return fmt::format("({})", fmt::join(completion.words, " "));
    case Completion::Kind::kModels:
      return "_banyan_models";
    case Completion::Kind::kFiles:
      break;
  }
  return "_files";
}

// The lines of _arguments for one option, one for each of its names.
std::string SpecsOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  const bool repeats = option.get_items_expected_max() > 1;
  std::string text;
  for (const std::string& name : names) {
    std::string spec = repeats ? "*" : fmt::format("({})", fmt::join(names, " "));
    spec += name;
    if (takes_value) spec += name.starts_with("--") ? "=" : "+";
    spec += fmt::format("[{}]", Escaped(ShortDescription(option.get_description()), "[]\\"));
    if (takes_value) spec += fmt::format(":value:{}", ZshActionOf(ValueCompletion(option)));
    text += " \\\n        " + ZshQuoted(spec);
  }
  return text;
}

std::string ZshCaseOf(const TypedCommand& command) {
  std::string text = fmt::format("    '{}')\n", command.typed);
  if (command.depth > 0) {
    text +=
        fmt::format("      shift {} words; (( CURRENT -= {} ))\n", command.depth, command.depth);
  }
  text += "      _arguments";
  for (const CLI::Option* option : NamedOptions(*command.app)) text += SpecsOf(*option);
  const std::vector<const CLI::App*> subcommands = ShownCommands(*command.app);
  if (subcommands.empty()) {
    text += " \\\n        " + ZshQuoted("*:argument:" + ZshActionOf(command.arguments));
  } else {
    std::string described;
    for (const CLI::App* sub : subcommands) {
      described += fmt::format("{}\\:\"{}\" ", sub->get_name(),
                               Escaped(ShortDescription(sub->get_description()), "\\\"$`"));
    }
    text += " \\\n        " + ZshQuoted("*:command:((" + described + "))");
  }
  return text + "\n      ;;\n";
}

}  // namespace

std::string ZshCompletion(const CLI::App& root) {
  const std::vector<TypedCommand> commands = TypedCommands(root);
  std::vector<std::string> typed;
  for (const TypedCommand& command : commands) {
    if (command.depth > 0) typed.push_back("'" + command.typed + "'");
  }
  std::string text = kZshBegin;
  text +=
      fmt::format("      {}) typed+=\" $words[i]\" ;;\n    esac\n  done\n", fmt::join(typed, "|"));
  text += "  case \"$typed\" in\n";
  for (const TypedCommand& command : commands) text += ZshCaseOf(command);
  return text + kZshEnd;
}

}  // namespace banyan::app
