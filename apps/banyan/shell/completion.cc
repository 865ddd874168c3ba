// banyan completion: scripts for bash, zsh and fish, made from the definitions of the command line.
#include "shell/completion.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "program.h"
#include "shell/option_words.h"
#include "terminal/terminal.h"

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
}

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
      if (!value.choices.empty()) return {Completion::Kind::kWords, value.choices};
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

std::string FishCompletion(const CLI::App& root) {
  std::string text = "# fish completion for banyan, made by: banyan completion fish\n";
  for (const TypedCommand& command : TypedCommands(root)) text += LinesOf(command);
  return text;
}

Command AddCompletion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes for a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell: bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  return [shell, &app] {
    Print(*shell == "bash"  ? BashCompletion(app)
          : *shell == "zsh" ? ZshCompletion(app)
                            : FishCompletion(app));
    return 0;
  };
}

}  // namespace banyan::app
