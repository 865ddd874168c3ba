#include "bench_options.h"

#include <algorithm>

#include "banyan/error.h"

namespace banyan::app {
namespace {

// Of flat runs, unless --flat-tokens says otherwise: a second or two on either kind of machine.
constexpr std::int64_t kFlatTokensOnDevice = 60000, kFlatTokensOnCpu = 2000;

}  // namespace

void BenchModel::AddTo(CLI::App& command) {
  run.comparisons = true;
  run.AddTo(command, "mixed");
  std::string shapes;
  for (const std::string& name : Model::ModelShapes()) {
    shapes += (shapes.empty() ? "" : ", ") + name;
  }
  command.add_option("--shape", shape, "Random weights at this shape: " + shapes);
  command.add_flag("--random", random, "With --shape, which implies it");
  command.add_option(
      "--weights", weights,
      "Type of random weights: bf16 (default on cuda), q8_0 (default elsewhere), q4_0, mxfp4, f32");
  command.add_option("--strategies", strategies, "Comma-separated")->capture_default_str();
  if (flat_tokens < 0) {
    command
        .add_option("--flat-tokens", flat_tokens,
                    "flat runs only the first streams, of about so many prompt tokens together; 0: "
                    "all (default: 60000 on cuda, 2000 elsewhere)")
        ->check(CLI::NonNegativeNumber);
  }
  command
      .add_option("--repeat", repeat,
                  "Runs of each strategy, in turns; the median counts, with its spread")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--cold", cold,
                   "No untimed run first (on cuda it chooses the algorithms of the products)");
  command.add_option("--json", json, "Also write the figures to this file; -: to stdout instead");
}

BenchRun BenchModel::Prepare() {
  const bool on_device = run.load.device == "cuda";
  BenchRun prepared;
  prepared.strategies = ParseStrategies(strategies);
  ChooseShape();
  run.Resolve();
  prepared.engine = run.engine;
  prepared.flat_tokens = flat_tokens >= 0 ? flat_tokens
                         : on_device      ? kFlatTokensOnDevice
                                          : kFlatTokensOnCpu;
  prepared.repeat = repeat;
  prepared.warm_up = on_device && !cold;
  prepared.model = Load();
  return prepared;
}

void BenchModel::ChooseShape() {
  if (run.load.model.empty() && shape.empty()) shape = default_shape;
  if (run.load.model.empty() == shape.empty()) {
    throw Error(ErrorKind::kUsage, "bench: expected either -m MODEL or --shape NAME");
  }
  if (random && shape.empty()) {
    throw Error(ErrorKind::kUsage, "--random: expected --shape NAME as well");
  }
}

std::shared_ptr<Model> BenchModel::Load() {
  if (shape.empty()) return run.LoadModel(false);
  const std::string by_default = run.load.device == "cuda" ? "bf16" : "q8_0";
  return Model::Random(shape, weights.empty() ? by_default : weights, run.load);
}

std::vector<Strategy> ParseStrategies(const std::string& names) {
  std::vector<Strategy> strategies;
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t end = std::min(names.find(',', begin), names.size());
    strategies.push_back(ParseStrategy(names.substr(begin, end - begin)));
    begin = end + 1;
  }
  return strategies;
}

}  // namespace banyan::app
