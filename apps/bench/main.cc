// banyan-bench: how fast, against what ceiling; outputs are compared, too. `banyan bench` calls it
// with the same arguments.
#include <string>
#include <vector>

#include "bench_commands.h"
#include "program.h"
#include "program/fresh_file.h"

namespace banyan::app {

Command AddBenches(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure speed; the strategies' outputs are compared bit for bit");
  bench->require_subcommand(1);
  std::vector<BenchCommand> commands = AddNamedBenches(*bench);
  for (const auto add : {AddBenchShared, AddBenchHydragen, AddBenchTree, AddBenchForest,
                         AddBenchGrid, AddBenchAttention, AddBenchArrival, AddBenchText,
                         AddBenchConstrain, AddBenchConstrained, AddBenchExtract, AddBenchRag,
                         AddBenchDraft, AddBenchStep, AddBenchOps, AddBenchKv, AddBenchLines}) {
    commands.push_back(add(*bench));
  }
  const std::string replaces = "Replace the file of --json if it is there";
  for (const BenchCommand& command : commands) {
    if (command.app->get_option_no_throw("--json") == nullptr) continue;
    command.app->add_flag("--overwrite", replaces);
  }
  return [commands] {
    for (const BenchCommand& command : commands) {
      if (!command.app->parsed()) continue;
      const CLI::Option* json = command.app->get_option_no_throw("--json");
      if (json != nullptr && json->count() > 0) {  // before anything is measured
        GuardOutput(json->as<std::string>(), "--json", command.app->count("--overwrite") > 0);
      }
      return command.run();
    }
    return 2;
  };
}

}  // namespace banyan::app

int main(int argc, char** argv) {
  std::string program = "banyan", bench = "bench";
  std::vector<char*> words = {program.data(), bench.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  return banyan::app::RunCommands(static_cast<int>(words.size()), words.data(),
                                  {banyan::app::AddBenches});
}
