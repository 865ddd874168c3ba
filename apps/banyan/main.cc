// banyan: one binary, subcommands. The only place of the program that catches errors.
#include <cstdio>
#include <exception>
#include <map>

#include "banyan/error.h"
#include "commands.h"

namespace {

int Run(int argc, char** argv) {
  CLI::App app("Banyan: one context, many answers. JSONL in, JSONL out.", "banyan");
  app.set_version_flag("--version", BANYAN_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  std::map<const CLI::App*, banyan::app::Command> commands;
  const auto add = [&](banyan::app::Command (*adder)(CLI::App&)) {
    banyan::app::Command command = adder(app);
    commands[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(command);
  };
  add(banyan::app::AddAsk);
  add(banyan::app::AddEmbed);
  add(banyan::app::AddIds);
  add(banyan::app::AddModel);
  add(banyan::app::AddBench);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "banyan: %s\nTry 'banyan --help'.\n", e.what());
    return 2;
  }
  return commands.at(app.get_subcommands().front())();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const banyan::Error& e) {
    std::fprintf(stderr, "banyan: %s\n", e.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "banyan: out of memory\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "banyan: %s\n", e.what());
  }
  return 2;
}
