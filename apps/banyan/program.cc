// The program: subcommands, and the only place that catches errors.
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "bench_call.h"
#include "commands.h"
#include "program.h"
#include "serve/serve_options.h"
#include "shell/build_info.h"
#include "shell/help_format.h"
#include "shell/parse_message.h"
#include "terminal/screen.h"

namespace {

constexpr const char* kBeginning =
    R"(Banyan: one context, many answers. Questions about documents, by a model on this machine.

To begin:
  banyan ask report.pdf "Who signed it?"                      a question about a file
  banyan ask letters/ -q "Who wrote it?" -o answers.csv       the same question of every file
  banyan extract offers/ --schema '{"brand":"text","price":"number"}' -o values.csv
  banyan rag index notes/ && banyan rag "When does the ferry leave?"
  banyan serve                                                a page in the browser)";

constexpr const char* kExample = R"(Try it, with the model that ships with the program:
  $ echo 'Anna Walker steers the ferry Marigold.' > notes.txt
  $ banyan ask notes.txt "Who steers the ferry Marigold?"

'banyan help COMMAND' says more. Without -m the model is $BANYAN_MODEL, else the shipped one.)";

int Run(int argc, char** argv, const std::vector<banyan::app::Command (*)(CLI::App&)>& adders) {
  CLI::App app(kBeginning, "banyan");
  app.formatter(std::make_shared<banyan::app::HelpFormat>());
  app.set_help_flag("-h,--help", "This text");
  app.set_version_flag("--version", banyan::app::VersionText,
                       "The program's version, commit, build and devices");
  app.group("Commands");
  app.require_subcommand(1);
  std::map<const CLI::App*, banyan::app::Command> commands;
  for (const auto adder : adders) {
    banyan::app::Command command = adder(app);
    commands[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(command);
  }
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
    banyan::app::WarnOfMovedOptions(app);
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

namespace banyan::app {

int RunCommands(int argc, char** argv, const std::vector<Command (*)(CLI::App&)>& adders) {
  ReserveStandardStreams();
  try {
    if (argc > 1 && std::string(argv[1]) == "bench" && adders.size() > 1) {
      CallBench({argv + 2, argv + argc});
    }
    return Run(argc, argv, adders);
  } catch (const std::bad_alloc&) {
    SayLine("out of memory");
  } catch (const std::exception& e) {
    SayLine(e.what());
  }
  return 2;
}

int RunProgram(int argc, char** argv) {
  return RunCommands(argc, argv,
                     {AddAsk, AddExtract, AddRag, AddKv, AddServe, AddMerge, AddEmbed, AddIds,
                      AddModel, AddBench, AddEval, AddHelp, AddCompletion, AddMan});
}

}  // namespace banyan::app
