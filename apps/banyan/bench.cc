// banyan bench: how fast, against what ceiling, and only after the outputs were compared.
#include "bench_commands.h"

namespace banyan::app {

Command AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure; outputs are compared before times count");
  bench->require_subcommand(1);
  std::vector<BenchCommand> commands = AddNamedBenches(*bench);
  for (const auto add :
       {AddBenchShared, AddBenchHydragen, AddBenchTree, AddBenchForest, AddBenchAttention,
        AddBenchArrival, AddBenchText, AddBenchConstrain, AddBenchConstrained, AddBenchExtract,
        AddBenchRag, AddBenchStep, AddBenchOps, AddBenchKv}) {
    commands.push_back(add(*bench));
  }
  return [commands] {
    for (const BenchCommand& command : commands) {
      if (command.app->parsed()) return command.run();
    }
    return 2;
  };
}

}  // namespace banyan::app
