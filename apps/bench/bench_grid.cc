// banyan bench grid: does `auto` choose well? Many small forests, each under `auto` and under the
// fixed strategies in turns; how much slower `auto` is than the best of these.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

using GridClock = std::chrono::steady_clock;

constexpr double kToleratedLoss = 0.03;
constexpr int kLeastRounds = 3, kMostRounds = 15;

struct ForestGrid {
  BenchModel model;
  int forests = 50;
  double minutes = 3.0;
  std::uint64_t seed = 40;
};

// Of one forest: seconds of each strategy in each round, `auto` first.
struct GridCell {
  Work work;
  std::vector<std::vector<double>> seconds;  // [strategies][rounds]
  Receipt receipt;                           // of the last run of `auto`
  size_t best = 0;                           // the fixed strategy with the least median
  double ratio = 0.0, spread = 0.0;          // of auto / best: median, half the quartiles' distance

  bool best_is_tree = false;
  // Then `auto` made the plans of `tree`, and what differs is noise.
  bool same_plans() const { return best_is_tree && receipt.steps_apart == 0; }
  bool beyond() const { return ratio > 1.0 + kToleratedLoss; }
  bool slower() const { return beyond() && !same_plans() && spread < ratio - 1.0; }
  bool undecided() const { return beyond() && !same_plans() && !slower(); }
};

double QuantileOf(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const double at = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double rest = at - static_cast<double>(below);
  return values[below] * (1.0 - rest) + values[above] * rest;
}

// Between the bounds, with all orders of magnitude alike.
int Drawn(std::mt19937_64& random, double least, double most) {
  const double part = static_cast<double>(random() >> 11) / static_cast<double>(1ULL << 53);
  return static_cast<int>(std::lround(least * std::pow(most / least, part)));
}

// Documents, questions and lengths spread widely; of each forest no more than a moment's work.
std::vector<Work> MakeForests(const ForestGrid& grid, bool on_device) {
  const int most_streams = on_device ? 256 : 32;
  const int most_tokens = on_device ? 60000 : 600;  // computed, of all prompts
  std::mt19937_64 random(grid.seed);
  std::vector<Work> works;
  while (static_cast<int>(works.size()) < grid.forests) {
    Work work;
    work.name = "grid";
    const int documents = Drawn(random, 1, on_device ? 64 : 8);
    const int questions = Drawn(random, 1, on_device ? 128 : 24);
    const int instruction = Drawn(random, 4, on_device ? 4096 : 400);
    const int document = Drawn(random, 8, on_device ? 4096 : 400);
    const int question = Drawn(random, 4, 160);
    work.branches = {1, documents, questions};
    work.lengths = {instruction, document, question};
    work.max_new = Drawn(random, 4, on_device ? 32 : 16);
    work.seed = grid.seed + works.size();
    const std::int64_t tokens = instruction + documents * (document + questions * question);
    if (work.streams() <= most_streams && tokens <= most_tokens) works.push_back(work);
  }
  return works;
}

void RunRound(const BenchRun& run, GridCell& cell) {
  // Each strategy goes first in its turn.
  const size_t count = run.strategies.size(), first = cell.seconds.front().size() % count;
  BenchRun round = run;
  std::ranges::rotate(round.strategies,
                      round.strategies.begin() + static_cast<std::ptrdiff_t>(first));
  const WorkResult result = RunWork(round, cell.work);
  for (size_t i = 0; i < count; ++i) {
    const Outcome& outcome = result.outcomes[(i + count - first) % count];
    cell.seconds[i].push_back(outcome.seconds);
    if (i == 0) cell.receipt = outcome.receipt;
  }
}

void Judge(GridCell& cell) {
  double least = 0.0;
  for (size_t i = 1; i < cell.seconds.size(); ++i) {
    const double median = QuantileOf(cell.seconds[i], 0.5);
    if (i > 1 && median >= least) continue;
    least = median;
    cell.best = i;
  }
  std::vector<double> ratios;
  for (size_t round = 0; round < cell.seconds.front().size(); ++round) {
    ratios.push_back(cell.seconds.front()[round] / cell.seconds[cell.best][round]);
  }
  cell.ratio = QuantileOf(ratios, 0.5);
  cell.spread = (QuantileOf(ratios, 0.75) - QuantileOf(ratios, 0.25)) / 2.0;
}

std::string RowOf(const GridCell& cell, const std::vector<Strategy>& strategies) {
  std::string line = fmt::format("| {} |", cell.work.Text());
  for (const std::vector<double>& seconds : cell.seconds) {
    line += fmt::format(" {:.2f} |", 1e3 * QuantileOf(seconds, 0.5));
  }
  return line + fmt::format(" {:.3f} ± {:.3f} | {} | {} of {} |{}", cell.ratio, cell.spread,
                            StrategyName(strategies[cell.best]), cell.receipt.steps_apart,
                            cell.receipt.steps,
                            cell.slower()      ? " slower"
                            : cell.undecided() ? " undecided"
                            : cell.beyond()    ? " noise: the plans of tree"
                                               : "");
}

nlohmann::ordered_json JsonOfCell(const GridCell& cell, const std::vector<Strategy>& strategies) {
  nlohmann::ordered_json json = {{"work", cell.work.Text()},
                                 {"rounds", cell.seconds.front().size()},
                                 {"auto_over_best", cell.ratio},
                                 {"spread", cell.spread},
                                 {"best", StrategyName(strategies[cell.best])},
                                 {"steps", cell.receipt.steps},
                                 {"steps_apart", cell.receipt.steps_apart},
                                 {"predicted_seconds", cell.receipt.predicted_seconds}};
  for (size_t i = 0; i < strategies.size(); ++i) {
    json["seconds"][StrategyName(strategies[i])] = QuantileOf(cell.seconds[i], 0.5);
  }
  return json;
}

// What was found, of how many forests.
struct GridResult {
  size_t forests = 0;
  std::vector<GridCell> cells;
  std::vector<Strategy> strategies;  // `auto` first

  const GridCell& worst() const { return *std::ranges::max_element(cells, {}, &GridCell::ratio); }
  std::int64_t Count(bool (*is)(const GridCell&)) const { return std::ranges::count_if(cells, is); }
  std::int64_t slower() const {
    return Count([](const GridCell& cell) { return cell.slower(); });
  }
  std::int64_t undecided() const {
    return Count([](const GridCell& cell) { return cell.undecided(); });
  }
  std::int64_t same_plans() const {
    return Count([](const GridCell& cell) { return cell.same_plans(); });
  }
  std::int64_t apart() const {
    return Count([](const GridCell& cell) { return cell.receipt.steps_apart > 0; });
  }
};

// Every forest gets its part of the time that is left; what there is no time for is left out.
GridResult Measure(const ForestGrid& grid, BenchRun& run, const std::vector<Work>& works,
                   GridClock::time_point began) {
  const auto left = [&] {
    return 60.0 * grid.minutes - std::chrono::duration<double>(GridClock::now() - began).count();
  };
  GridResult result{.forests = works.size(), .cells = {}, .strategies = run.strategies};
  for (size_t i = 0; i < works.size(); ++i) {
    const double of_others = left() * (1.0 - 1.0 / static_cast<double>(works.size() - i));
    GridCell cell;
    cell.work = works[i];
    cell.seconds.resize(run.strategies.size());
    double longest = 0.0;
    for (int round = 0; round < kMostRounds; ++round) {
      const double before = left();
      if (before <= longest || (round >= kLeastRounds && before < of_others + longest)) break;
      BenchRun now = run;
      now.warm_up = run.warm_up && round == 0;
      RunRound(now, cell);
      longest = std::max(longest, before - left());
    }
    if (cell.seconds.front().empty()) break;
    Judge(cell);
    cell.best_is_tree = run.strategies[cell.best] == Strategy::kTree;
    fmt::print(stderr, "{} of {}, {:.0f} s left: {}\n", i + 1, works.size(), left(),
               cell.work.Text());
    result.cells.push_back(std::move(cell));
  }
  if (result.cells.empty()) {
    throw Error(ErrorKind::kLimit, "--minutes: no time for a single forest");
  }
  return result;
}

void Print(const GridResult& result, const Model& model) {
  std::string names, rule;
  for (const Strategy strategy : result.strategies) {
    names += fmt::format(" {} |", StrategyName(strategy));
    rule += "---|";
  }
  fmt::print("grid of forests | {} | {} | median milliseconds, in turns\n\n", model.backend_name(),
             model.precision());
  fmt::print("| forest |{} auto / best | best | steps apart |\n|---|{}---|---|---|\n", names, rule);
  for (const GridCell& cell : result.cells) fmt::print("{}\n", RowOf(cell, result.strategies));
  fmt::print(
      "\n{} of {} forests; auto / best fixed at worst {:.3f} ± {:.3f}; more than {:.0f} % slower: "
      "{}; more, but within the spread: {}; the plans of tree, which was best, in {}; something "
      "read "
      "apart in {}\n",
      result.cells.size(), result.forests, result.worst().ratio, result.worst().spread,
      100.0 * kToleratedLoss, result.slower(), result.undecided(), result.same_plans(),
      result.apart());
}

nlohmann::ordered_json JsonOfGrid(const GridResult& result, const Model& model) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const GridCell& cell : result.cells) cells.push_back(JsonOfCell(cell, result.strategies));
  return {{"backend", model.backend_name()},
          {"precision", model.precision()},
          {"forests", result.forests},
          {"measured", result.cells.size()},
          {"worst", result.worst().ratio},
          {"worst_spread", result.worst().spread},
          {"slower", result.slower()},
          {"undecided", result.undecided()},
          {"same_plans", result.same_plans()},
          {"apart", result.apart()},
          {"cells", cells}};
}

int RunForestGrid(ForestGrid& grid) {
  const GridClock::time_point began = GridClock::now();
  const bool on_device = grid.model.run.load.device == "cuda";
  if (grid.model.run.engine.kv_memory == 0) {
    grid.model.run.engine.kv_memory = std::int64_t{on_device ? 8192 : 256} << 20;
  }
  BenchRun run = grid.model.Prepare();
  run.quiet = true;
  std::erase(run.strategies, Strategy::kAuto);
  if (run.strategies.empty()) throw Error(ErrorKind::kUsage, "--strategies: no fixed one");
  run.strategies.insert(run.strategies.begin(), Strategy::kAuto);
  const GridResult result = Measure(grid, run, MakeForests(grid, on_device), began);
  if (!grid.model.json.empty()) WriteJson(grid.model.json, JsonOfGrid(result, *run.model));
  if (grid.model.json != "-") Print(result, *run.model);
  return 0;
}

}  // namespace

BenchCommand AddBenchGrid(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "grid", "Many small forests: how much slower auto is than the best fixed strategy");
  auto command = std::make_shared<ForestGrid>();
  command->model.strategies = "tree,paged";
  command->model.flat_tokens = 0;
  command->model.default_shape = "smollm2-thin";
  command->model.AddTo(*app);
  app->add_option("--forests", command->forests)->check(CLI::PositiveNumber)->capture_default_str();
  app->add_option("--minutes", command->minutes, "Ends by then, with fewer forests if need be")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--seed", command->seed, "Of forests and tokens")->capture_default_str();
  return {app, [command] { return RunForestGrid(*command); }};
}

}  // namespace banyan::app
