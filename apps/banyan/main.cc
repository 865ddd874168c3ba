// banyan: one binary, subcommands. The only place of the program that catches errors.
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "banyan/error.h"
#include "commands.h"
#include "help_format.h"
#include "parse_message.h"
#include "screen.h"
#include "serve_options.h"

namespace {

constexpr const char* kExample = R"(Try it, with the model that ships with the program:
  $ echo 'Anna Walker steers the ferry Marigold.' > notes.txt
  $ banyan ask notes.txt "Who steers the ferry Marigold?"

'banyan help COMMAND' says more. Without -m the model is $BANYAN_MODEL, else the shipped one.)";

int Run(int argc, char** argv) {
  CLI::App app(
      "Banyan: one context, many answers. Questions about documents, by a model on this machine.",
      "banyan");
  app.formatter(std::make_shared<banyan::app::HelpFormat>());
  app.set_help_flag("-h,--help", "This text");
  app.set_version_flag("--version", "banyan " BANYAN_VERSION, "The program's version");
  app.group("Commands");
  app.require_subcommand(1);
  std::map<const CLI::App*, banyan::app::Command> commands;
  const auto add = [&](banyan::app::Command (*adder)(CLI::App&)) {
    banyan::app::Command command = adder(app);
    commands[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(command);
  };
  add(banyan::app::AddAsk);
  add(banyan::app::AddExtract);
  add(banyan::app::AddRag);
  add(banyan::app::AddKv);
  add(banyan::app::AddServe);
  add(banyan::app::AddMerge);
  add(banyan::app::AddEmbed);
  add(banyan::app::AddIds);
  add(banyan::app::AddModel);
  add(banyan::app::AddBench);
  add(banyan::app::AddEval);
  add(banyan::app::AddHelp);
  add(banyan::app::AddCompletion);
  add(banyan::app::AddMan);
  app.footer(kExample);
  if (argc == 1) {
    banyan::app::Say(app.help());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    banyan::app::SayLine(banyan::app::ParseMessage(app, e));
    return 2;
  }
  try {
    banyan::app::CheckValues(app);
    return commands.at(app.get_subcommands().front())();
  } catch (const banyan::Error& e) {
    // Messages of several lines say themselves what to do.
    const bool short_one = std::string(e.what()).find('\n') == std::string::npos;
    if (e.kind() != banyan::ErrorKind::kUsage || !short_one) throw;
    const CLI::App& command = banyan::app::ChosenCommand(app);
    banyan::app::SayLine(std::string(e.what()) + "\n" + banyan::app::WhereToReadOn(command));
    return 2;
  }
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
