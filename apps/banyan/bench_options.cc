#include "bench_options.h"

#include "banyan/error.h"

namespace banyan::app {

void BenchModel::AddTo(CLI::App& command) {
  run.AddTo(command, "mixed");
  std::string shapes;
  for (const std::string& name : Model::ModelShapes()) {
    shapes += (shapes.empty() ? "" : ", ") + name;
  }
  command.add_option("--shape", shape, "Random weights at this shape: " + shapes);
  command.add_flag("--random", random, "With --shape, which implies it");
  command.add_option(
      "--weights", weights,
      "Type of random weights: bf16 (default on cuda), q8_0 (default elsewhere), f32");
}

std::shared_ptr<Model> BenchModel::Load() {
  run.Resolve();
  if (run.load.model.empty() == shape.empty()) {
    throw Error(ErrorKind::kUsage, "bench: expected either -m MODEL or --shape NAME");
  }
  if (random && shape.empty()) {
    throw Error(ErrorKind::kUsage, "--random: expected --shape NAME as well");
  }
  if (shape.empty()) return Model::Load(run.load);
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
