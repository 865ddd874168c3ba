// banyan bench step and bench ops: whole steps beside their parts, and each part beside what the
// machine can do.
#include "measure_step.h"
#include "program/json_library.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"

namespace banyan::app {
namespace {

struct StepCommand {
  BenchModel model;
  bool operations = false;  // a line for each
  std::vector<int> streams = {1, 32};
  std::vector<int> prefixes = {256, 1024, 4096};
  std::vector<int> own;  // tokens of each stream's own, with the most streams
  std::vector<int> prompts = {512};
  int runs = 5;
};

struct Line {
  std::string name;
  StepTask task;
  StepReport report;
};

double Sum(const StepReport& report) {
  double sum = 0.0;
  for (const OperationTime& operation : report.operations) sum += operation.seconds;
  return sum;
}

// The least time at the machine's rates; 0 where nothing is known to bound it.
double LimitOf(const OperationTime& operation, const Model& model) {
  if (model.flops_per_second() <= 0.0) return 0.0;
  return std::max(operation.flops / model.flops_per_second(),
                  operation.bytes / model.bytes_per_second());
}

double LimitOf(const StepReport& report, const Model& model) {
  double flops = 0.0, bytes = 0.0;
  for (const OperationTime& operation : report.operations) {
    flops += operation.flops;
    bytes += operation.bytes;
  }
  return LimitOf(OperationTime{"", 0.0, flops, bytes}, model);
}

std::string Percent(double part, double whole) {
  return part <= 0.0 || whole <= 0.0 ? "-" : fmt::format("{:.0f} %", 100.0 * part / whole);
}

void PrintSteps(const std::vector<Line>& lines, const Model& model) {
  fmt::print("| step | rows | ms | tok/s | parts together | attention | of the limit |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Line& line : lines) {
    double attention = 0.0;
    for (const OperationTime& operation : line.report.operations) {
      if (operation.name == "attention") attention = operation.seconds;
    }
    fmt::print("| {} | {} | {:.2f} | {:.1f} | {} | {} | {} |\n", line.name, line.report.rows,
               line.report.seconds * 1e3, line.report.rows / line.report.seconds,
               Percent(Sum(line.report), line.report.seconds),
               Percent(attention, line.report.seconds),
               Percent(LimitOf(line.report, model), line.report.seconds));
  }
}

void PrintOperations(const std::vector<Line>& lines, const Model& model) {
  for (const Line& line : lines) {
    fmt::print(
        "{}: {:.2f} ms\n\n| operation | ms | of the step | GFLOP/s | GB/s | of the limit |\n",
        line.name, line.report.seconds * 1e3);
    fmt::print("|---|---|---|---|---|---|\n");
    for (const OperationTime& operation : line.report.operations) {
      const auto rate = [&](double work) {
        return work > 0.0 ? fmt::format("{:.1f}", work / operation.seconds * 1e-9) : "-";
      };
      fmt::print("| {} | {:.3f} | {} | {} | {} | {} |\n", operation.name, operation.seconds * 1e3,
                 Percent(operation.seconds, line.report.seconds), rate(operation.flops),
                 rate(operation.bytes), Percent(LimitOf(operation, model), operation.seconds));
    }
    fmt::print("\n");
  }
}

nlohmann::ordered_json JsonOf(const std::vector<Line>& lines, const Model& model) {
  nlohmann::ordered_json json = {{"backend", model.backend_name()},
                                 {"flops_per_second", model.flops_per_second()},
                                 {"bytes_per_second", model.bytes_per_second()}};
  for (const Line& line : lines) {
    nlohmann::ordered_json step = {{"name", line.name},
                                   {"streams", line.task.streams},
                                   {"rows", line.report.rows},
                                   {"prefix", line.task.prefix},
                                   {"seconds", line.report.seconds},
                                   {"limit_seconds", LimitOf(line.report, model)}};
    for (const OperationTime& operation : line.report.operations) {
      step["operations"].push_back({{"name", operation.name},
                                    {"seconds", operation.seconds},
                                    {"flops", operation.flops},
                                    {"bytes", operation.bytes},
                                    {"limit_seconds", LimitOf(operation, model)}});
    }
    json["steps"].push_back(std::move(step));
  }
  return json;
}

int RunSteps(StepCommand& command) {
  const std::shared_ptr<Model> model = command.model.Prepare().model;
  model->flops_per_second();  // measured before KV takes the memory
  StepBench bench(model, command.runs);
  std::vector<Line> lines;
  const Strategy strategy = command.model.run.engine.strategy;
  const auto measure = [&](std::string name, StepTask task) {
    fmt::print(stderr, "{} ...\n", name);
    task.strategy = strategy;
    lines.push_back({std::move(name), task, bench.Measure(task)});
  };
  for (const int rows : command.prompts) measure(fmt::format("prompt of {}", rows), {1, rows, 0});
  for (const int streams : command.streams) {
    for (const int prefix : command.prefixes) {
      measure(fmt::format("{} x {}", streams, prefix), {streams, 1, prefix});
    }
  }
  const int most = *std::max_element(command.streams.begin(), command.streams.end());
  for (const int own : command.own) {
    measure(fmt::format("{} x {}, nothing shared", most, own), {most, 1, own, false});
  }
  if (!command.model.json.empty()) {
    WriteJson(command.model.json, JsonOf(lines, *model));
    if (command.model.json == "-") return 0;
  }
  fmt::print("{} | {} | measured {:.3g} GFLOP/s, {:.3g} GB/s | least of {} runs\n\n",
             model->backend_name(), model->precision(), model->flops_per_second() * 1e-9,
             model->bytes_per_second() * 1e-9, command.runs);
  if (command.operations) {
    PrintOperations(lines, *model);
  } else {
    PrintSteps(lines, *model);
  }
  return 0;
}

BenchCommand AddSteps(CLI::App& bench, const std::string& name, const std::string& what,
                      bool operations) {
  auto command = std::make_shared<StepCommand>();
  command->operations = operations;
  if (operations) command->prefixes = {1024};
  command->model.default_shape = "smollm2-135m";
  CLI::App* app = bench.add_subcommand(name, what);
  command->model.AddTo(*app);
  app->add_option("--streams", command->streams, "Numbers of streams")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--prefix", command->prefixes, "Numbers of shared tokens")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--own", command->own, "Tokens of each stream's own, with nothing shared")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app->add_option("--prompt", command->prompts, "Tokens of prompts computed at once")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--runs", command->runs, "The least of so many runs counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return {app, [command] { return RunSteps(*command); }};
}

}  // namespace

BenchCommand AddBenchStep(CLI::App& bench) {
  return AddSteps(bench, "step", "Whole steps: time, rate and distance to the limit", false);
}

BenchCommand AddBenchOps(CLI::App& bench) {
  return AddSteps(bench, "ops", "Each operation of a step: rates and distance to the limit", true);
}

}  // namespace banyan::app
