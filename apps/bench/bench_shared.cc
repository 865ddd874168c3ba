// banyan bench shared and hydragen: decode rates of many streams over one shared prefix.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"
#include "bench_table.h"

namespace banyan::app {
namespace {

struct GridCommand {
  std::string name;
  BenchModel model;
  std::vector<int> streams, prefixes;
  int own = 16;
  int max_new = 64;
  std::uint64_t seed = 1;
  bool targets = false;
};

// Tokens/s that this project aims at on one H200, Qwen3-8B shape, bf16.
double SharedTarget(const Work& work) {
  const int streams = work.streams(), shared = work.lengths.front();
  if (streams == 256 && shared == 2048) return 28000;
  if (streams == 256 && shared == 16384) return 18000;
  if (streams == 1 && shared == 2048) return 190;
  return 0;
}

// All streams of a cell run at once, so that its decode steps have a row for each. Rows that were
// not asked for are the engine's choice.
void FitStreams(int streams, EngineOptions& engine) {
  engine.max_streams = std::max(engine.max_streams, streams);
  if (engine.batch_rows > 0) engine.batch_rows = std::max(engine.batch_rows, streams);
}

int RunGrid(GridCommand& command) {
  const BenchRun prepared = command.model.Prepare();
  std::vector<WorkResult> results;
  for (const int streams : command.streams) {
    for (const int prefix : command.prefixes) {
      Work work;
      work.name = command.name;
      work.branches = {1, streams};
      work.lengths = {prefix, command.own};
      work.max_new = command.max_new;
      work.seed = command.seed;
      BenchRun run = prepared;
      FitStreams(streams, run.engine);
      fmt::print(stderr, "{} streams, {} shared\n", streams, prefix);
      results.push_back(RunWork(run, work));
    }
  }
  if (!command.model.json.empty()) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const WorkResult& result : results) json.push_back(JsonOf(result, *prepared.model));
    WriteJson(command.model.json, json);
    if (command.model.json == "-") return 0;
  }
  const bool targets = command.targets && command.model.shape == "qwen3-8b";
  PrintGrid(results, *prepared.model, targets ? SharedTarget : nullptr);
  return 0;
}

BenchCommand AddGrid(CLI::App& bench, const std::shared_ptr<GridCommand>& command,
                     const std::string& what) {
  CLI::App* app = bench.add_subcommand(command->name, what);
  command->model.strategies = "auto,flat,no-attention";
  command->model.AddTo(*app);
  app->add_option("--streams", command->streams, "Numbers of streams")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--prefix", command->prefixes, "Numbers of shared tokens")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--own", command->own, "Tokens of a stream's own prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-new", command->max_new, "Tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--seed", command->seed, "Of the tokens")->capture_default_str();
  return {app, [command] { return RunGrid(*command); }};
}

}  // namespace

BenchCommand AddBenchShared(CLI::App& bench) {
  auto command = std::make_shared<GridCommand>();
  command->name = "shared";
  command->streams = {1, 32, 256, 1024};
  command->prefixes = {2048, 16384};
  command->targets = true;
  return AddGrid(bench, command, "Decode rates of many streams on one prefix, a grid of both");
}

BenchCommand AddBenchHydragen(CLI::App& bench) {
  auto command = std::make_shared<GridCommand>();
  command->name = "hydragen";
  command->streams = {1024};
  command->prefixes = {1024, 2048, 4096, 8192, 16384};
  command->max_new = 32;
  command->model.default_shape = "codellama-7b";
  return AddGrid(bench, command,
                 "Hydragen's grid at the codellama-7b shape: how little a longer prefix costs");
}

}  // namespace banyan::app
