// Parses the command line, runs a command and turns its errors into messages and exit codes.
#include "program.h"

#include <unistd.h>

#include <fmt/format.h>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "shell/help.h"
#include "shell/parse_message.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kBenchProgram = "banyan-bench";

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

int Run(int argc, char** argv, const std::vector<Command (*)(CLI::App&)>& adders) {
  CLI::App app(kBeginning, "banyan");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "This text");
  app.set_help_all_flag("--help-all", "All options, group by group");  // of every command
  app.set_version_flag("--version", VersionText,
                       "The program's version, commit, build and devices");
  app.group("Commands");
  app.require_subcommand(1);
  std::map<const CLI::App*, Command> commands;
  for (const auto adder : adders) {
    Command command = adder(app);
    commands[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(command);
  }
  app.footer(kExample);
  if (argc == 1) {
    Say(app.help());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    SayLine(ParseMessage(app, e));
    return 2;
  }
  try {
    CheckValues(app);
    WarnOfMovedOptions(app);
    return commands.at(app.get_subcommands().front())();
  } catch (const Error& e) {
    // Messages of several lines say themselves what to do.
    const bool short_one = std::string(e.what()).find('\n') == std::string::npos;
    if (e.kind() != ErrorKind::kUsage || !short_one) throw;
    const CLI::App& command = ChosenCommand(app);
    SayLine(std::string(e.what()) + "\n" + WhereToReadOn(command));
    return 2;
  }
}

}  // namespace

const std::vector<std::string>& BenchNames() {
  static const std::vector<std::string> names = {
      "squad2",  "narrativeqa", "race",      "longhealth", "shared", "hydragen",  "tree",
      "forest",  "grid",        "attention", "arrival",    "text",   "constrain", "constrained",
      "extract", "rag",         "draft",     "step",       "ops",    "kv",        "lines"};
  return names;
}

void CallBench(const std::vector<std::string>& arguments) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string beside = failed ? std::string() : (self.parent_path() / kBenchProgram).string();
  std::vector<std::string> words = {kBenchProgram};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (!beside.empty()) ::execv(beside.c_str(), pointers.data());
  ::execvp(kBenchProgram, pointers.data());  // elsewhere on the PATH
  throw Error(ErrorKind::kNotFound,
              fmt::format("bench is a program of its own, {}: expected it at {} or on the PATH; it "
                          "comes with the source and the Debian package",
                          kBenchProgram, beside.empty() ? "the folder of banyan" : beside));
}

Command AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure speed; the strategies' outputs are compared bit for bit");
  bench->set_help_all_flag();  // a program of its own, which has none
  const std::string what = fmt::format("What to measure: {}", fmt::join(BenchNames(), ", "));
  bench->add_option("name", what)->type_name(fmt::format("{}", fmt::join(BenchNames(), "|")));
  bench->footer("'banyan bench NAME --help' says what it measures.");
  // Reached by no command line: RunProgram calls banyan-bench before it parses.
  return []() -> int { CallBench({}); };
}

// The program: subcommands, and the only place that catches errors.

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
    if (StopSignal() != 0) return 128 + StopSignal();  // what it waited for was given up
  }
  return 2;
}

int RunProgram(int argc, char** argv) {
  return RunCommands(
      argc, argv,
      {AddAsk, AddExtract, AddRag, AddMap, AddFilter, AddRank, AddGroup, AddJoin, AddKv, AddServe,
       AddMerge, AddEmbed, AddIds, AddModel, AddBench, AddEval, AddHelp, AddCompletion, AddMan});
}

}  // namespace banyan::app
