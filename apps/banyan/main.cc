// banyan: one binary, subcommands. The only place of the program that catches errors.
#include <exception>
#include <map>
#include <new>
#include <string>

#include "commands.h"
#include "screen.h"

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
  add(banyan::app::AddExtract);
  add(banyan::app::AddEmbed);
  add(banyan::app::AddIds);
  add(banyan::app::AddModel);
  add(banyan::app::AddBench);
  add(banyan::app::AddEval);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    banyan::app::SayLine(std::string(e.what()) + "\nTry 'banyan --help'.");
    return 2;
  }
  return commands.at(app.get_subcommands().front())();
}

}  // namespace

int main(int argc, char** argv) {
  banyan::app::ReserveStandardStreams();
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    banyan::app::SayLine("out of memory");
  } catch (const std::exception& e) {
    banyan::app::SayLine(e.what());
  }
  return 2;
}
