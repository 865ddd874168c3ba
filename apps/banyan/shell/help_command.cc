// banyan help: the same texts as --help, for those who ask that way round.
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "bench_call.h"
#include "commands.h"
#include "program/option_table.h"
#include "shell/option_reference.h"
#include "shell/option_words.h"
#include "shell/parse_message.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

// The command of these names below root. Throws kUsage.
const CLI::App& FindCommand(const CLI::App& root, const std::vector<std::string>& names) {
  const CLI::App* command = &root;
  for (const std::string& name : names) {
    const CLI::App* found = nullptr;
    for (const CLI::App* sub : command->get_subcommands({})) {
      if (sub->check_name(name)) found = sub;
    }
    if (found == nullptr) throw Error(ErrorKind::kUsage, NoSuchCommand(*command, name));
    command = found;
  }
  return *command;
}

// What --help would print: the formatter itself, because App::help() goes to the command that was
// parsed, which is `help`.
std::string HelpOf(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, FullName(command),
                                            CLI::AppFormatMode::Normal);
}

}  // namespace

Command AddHelp(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show the help of a command");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *names, "Its name, such as: ask, or: bench forest");
  auto reference = std::make_shared<bool>(false), table = std::make_shared<bool>(false);
  command->add_flag("--reference", *reference, "Every option, as a page (docs/options.md)");
  command->add_flag("--json", *table, "Every option of the tables, as JSON");
  return [=, &app] {
    if (*reference || *table) {
      Print(*reference ? OptionReference(app) : OptionTablesJson() + "\n");
      return 0;
    }
    if (!names->empty() && names->front() == "bench") {
      std::vector<std::string> words(names->begin() + 1, names->end());
      words.push_back("--help");
      CallBench(words);
    }
    Print(HelpOf(FindCommand(app, *names)));
    return 0;
  };
}

}  // namespace banyan::app
