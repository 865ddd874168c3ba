// banyan completion and banyan man: for packages and for shells, hidden from the help.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>

#include "banyan/error.h"
#include "banyan/version.h"
#include "commands.h"
#include "shell/completion.h"
#include "shell/completion_words.h"
#include "shell/man_page.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw Error(ErrorKind::kIo, fmt::format("{}: cannot write the file", path));
}

int PrintCompletion(const CLI::App& root, const std::string& shell) {
  Print(shell == "bash"  ? BashCompletion(root)
        : shell == "zsh" ? ZshCompletion(root)
                         : FishCompletion(root));
  return 0;
}

int WriteManPages(const CLI::App& root, const std::string& folder, const std::string& page) {
  if (page.empty() == folder.empty()) {
    throw Error(ErrorKind::kUsage,
                "man: expected either a page, such as banyan-ask, or --all FOLDER");
  }
  bool found = false;
  for (const TypedCommand& command : TypedCommands(root)) {
    const std::string name = ManPageName(*command.app);
    if (!folder.empty()) {
      WriteFile(fmt::format("{}/{}.1", folder, name), ManPage(*command.app, BANYAN_VERSION));
    } else if (name == page) {
      Print(ManPage(*command.app, BANYAN_VERSION));
      found = true;
    }
  }
  if (folder.empty() && !found) {
    throw Error(ErrorKind::kUsage, fmt::format("man: no page '{}', such as banyan-ask", page));
  }
  return 0;
}

}  // namespace

Command AddCompletion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes for a shell");
  command->group("");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell: bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  return [shell, &app] { return PrintCompletion(app, *shell); };
}

Command AddMan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print a manual page as roff, or write them all");
  command->group("");
  auto folder = std::make_shared<std::string>();
  auto page = std::make_shared<std::string>();
  command->add_option("page", *page, "Such as banyan-ask");
  command->add_option("--all", *folder, "Write every page into this folder");
  return [folder, page, &app] { return WriteManPages(app, *folder, *page); };
}

}  // namespace banyan::app
