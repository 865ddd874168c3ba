// banyan bench attention: attention alone, one layer, beside the figures of FlashInfer and the
// targets of this project.
#include <fmt/format.h>

#include <cstdio>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "measure_attention.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

// Microseconds of FlashInfer 0.5.3 on one H200, bf16, 32 query and 8 KV heads of 128, L2 cache not
// flushed (so rows with little KV are flattered); 0: not measured.
struct Row {
  std::string name;
  AttentionTask task;
  double cascade, paged, parts;
  double target;  // of ours, on the same machine; 0: none
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"32 x (2048 + 64)", {{{1, 2048}, {32, 64}}}, 72, 37, 24, 12},
      {"256 x (2048 + 64)", {{{1, 2048}, {256, 64}}}, 282, 267, 89, 32},
      {"256 x (16384 + 64)", {{{1, 16384}, {256, 64}}}, 490, 1824, 242, 150},
      {"1024 x (2048 + 64)", {{{1, 2048}, {1024, 64}}}, 1042, 1035, 275, 110},
      {"8 documents x 64, 32 / 2048 / 256", {{{1, 32}, {8, 2048}, {64, 256}}}, 1094, 605, 0, 230},
      {"32 documents x 30, 2752 / 736 / 16",
       {{{1, 2752}, {32, 736}, {30, 16}}},
       1056,
       1516,
       0,
       140},
      {"32 documents x 9, 48 / 176 / 16", {{{1, 48}, {32, 176}, {9, 16}}}, 313, 78, 0, 25},
      {"256 x 1024, nothing shared", {{{256, 1024}}}, 1426, 276, 0, 285},
      {"1 x 2048", {{{1, 2048}}}, 47, 10.5, 0, 8},
      {"prefill 512", {{{1, 512}}, 512}, 0, 11.7, 0, 0},
      {"prefill 2048", {{{1, 2048}}, 2048}, 0, 80.6, 0, 0},
      {"prefill 16384", {{{1, 16384}}, 16384}, 0, 3294, 0, 0},
  };
  return rows;
}

struct AttentionCommand {
  LoadOptions load;
  AttentionBenchOptions bench;
  std::string strategies = "auto,tree,paged";
  std::vector<std::string> only;
  std::vector<std::string> literals;  // forests of one's own, as ParseWork reads them
  int rows = 1;                       // of every leaf, of those
  bool warm = false;
  std::string json;
};

std::string Micros(double value) {
  if (value <= 0.0) return "-";
  return value < 100.0 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

bool Wanted(const AttentionCommand& command, const std::string& name) {
  if (command.only.empty()) return true;
  for (const std::string& part : command.only) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

// A forest as the benchmarks have it: "8 documents x 64 questions | 32, 2048, 256 tokens".
Row RowOf(const std::string& literal, int rows) {
  const Work work = ParseWork(literal);
  Row row;
  row.name =
      fmt::format("{}, {} tokens", fmt::join(work.branches, " x "), fmt::join(work.lengths, " / "));
  for (size_t level = 0; level < work.lengths.size(); ++level) {
    row.task.levels.push_back({work.branches[level], work.lengths[level]});
  }
  row.task.rows_per_leaf = rows;
  return row;
}

// FlashInfer's figures and our targets are of one machine and shape, and shown beside that alone.
bool Comparable(const AttentionCommand& command, const std::string& backend) {
  return backend.find("H200") != std::string::npos && command.bench.heads == 32 &&
         command.bench.kv_heads == 8 && command.bench.head_dim == 128;
}

std::string TableHead(const std::vector<Strategy>& strategies, bool costs, bool comparable) {
  std::string names, rule;
  for (const Strategy strategy : strategies) {
    names += fmt::format(" {} |", StrategyName(strategy));
    rule += "---|";
    if (!costs) continue;
    names += " least | predicted |";
    rule += "---|---|";
  }
  const char* rivals = comparable ? " FI cascade | FI paged | FI parts | target |" : "";
  return fmt::format(
      "| streams x (shared + own) |{} items | limit | reached |{}\n|---|{}---|---|---|{}\n", names,
      rivals, rule, comparable ? "---|---|---|---|" : "");
}

std::string TableRow(const Row& row, const AttentionReport& report, bool costs, bool comparable) {
  std::string line = fmt::format("| {} |", row.name);
  for (const AttentionTime& time : report.times) {
    line += fmt::format(" {} |", Micros(time.median_seconds * 1e6));
    if (costs) {
      line += fmt::format(" {} | {} |", Micros(time.least_seconds * 1e6),
                          Micros(time.predicted_seconds * 1e6));
    }
  }
  line += fmt::format(" {} | {} | {:.0f} % |", report.times.front().work_items,
                      Micros(report.limit_seconds * 1e6),
                      100.0 * report.limit_seconds / report.times.front().median_seconds);
  if (comparable) {
    line += fmt::format(" {} | {} | {} | {} |", Micros(row.cascade), Micros(row.paged),
                        Micros(row.parts), row.target > 0.0 ? "<= " + Micros(row.target) : "-");
  }
  return line + "\n";
}

nlohmann::ordered_json JsonRow(const Row& row, const AttentionReport& report, bool comparable) {
  nlohmann::ordered_json json = {{"work", row.name},
                                 {"rows", report.rows},
                                 {"keys", report.keys},
                                 {"limit_us", report.limit_seconds * 1e6}};
  if (comparable) {
    json["target_us"] = row.target;
    json["flashinfer_us"] = {{"cascade", row.cascade}, {"paged", row.paged}, {"parts", row.parts}};
  }
  for (const AttentionTime& time : report.times) {
    json["strategies"][StrategyName(time.strategy)] = {
        {"median_us", time.median_seconds * 1e6},
        {"least_us", time.least_seconds * 1e6},
        {"predicted_us", time.predicted_seconds * 1e6},
        {"items", time.work_items},
        {"keys_read", time.keys_read}};
  }
  return json;
}

int RunAttention(AttentionCommand& command) {
  command.bench.empty_caches = !command.warm;
  if (command.bench.runs == 0) command.bench.runs = command.load.device == "cuda" ? 21 : 3;
  const std::vector<Strategy> strategies = ParseStrategies(command.strategies);
  AttentionBench bench(command.load, command.bench);
  const bool comparable = Comparable(command, bench.backend_name());
  std::string table = TableHead(strategies, command.bench.measure_costs, comparable);
  std::vector<Row> rows;
  for (const std::string& literal : command.literals) rows.push_back(RowOf(literal, command.rows));
  if (rows.empty()) rows = Rows();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  int unequal = 0;
  for (const Row& row : rows) {
    if (!Wanted(command, row.name)) continue;
    fmt::print(stderr, "{} ...\n", row.name);
    const AttentionReport report = bench.Measure(row.task, strategies);
    if (!report.equal) {
      fmt::print(stderr, "banyan: {}: {}: no times\n", row.name, report.difference);
      ++unequal;
      continue;
    }
    table += TableRow(row, report, command.bench.measure_costs, comparable);
    json.push_back(JsonRow(row, report, comparable));
  }
  fmt::print(
      "attention, one layer, {} query and {} KV heads of {} | {} | measured {:.3g} TFLOP/s, "
      "{:.3g} TB/s\n",
      command.bench.heads, command.bench.kv_heads, command.bench.head_dim, bench.backend_name(),
      bench.flops_per_second() * 1e-12, bench.bytes_per_second() * 1e-12);
  if (command.bench.measure_costs) fmt::print("costs: {}\n", bench.costs());
  fmt::print(
      "median microseconds of {} runs, {}; the strategies' results are equal bit for bit\n\n",
      command.bench.runs, command.warm ? "caches warm" : "caches emptied before each");
  fmt::print(
      "{}\nitems, reached: of {}. limit: unique KV bytes and flops at the measured rates.\n{}",
      table, StrategyName(strategies.front()),
      comparable
          ? "FI: FlashInfer 0.5.3 on an H200 (32 / 8 heads of 128, bf16, L2 not flushed); its "
            "prefill under paged.\n"
          : "");
  if (!command.json.empty()) WriteJson(command.json, json);
  return unequal == 0 ? 0 : 1;
}

}  // namespace

BenchCommand AddBenchAttention(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "attention",
      "Attention alone, one layer; on an H200 beside FlashInfer's figures and our targets");
  auto command = std::make_shared<AttentionCommand>();
  command->bench.runs = 0;
  app->add_option("--device", command->load.device, "The device to compute on")
      ->type_name("cpu|reference|cuda")
      ->capture_default_str();
  app->add_option("--precision", command->load.precision, "Of activations and KV")
      ->type_name("f32|mixed")
      ->capture_default_str();
  app->add_option("--kv-type", command->load.kv_type, "KV elements in mixed precision")
      ->type_name("f16|bf16|q8|f32");
  app->add_option("--threads", command->load.threads, "0: as many as the process may use")
      ->check(CLI::Range(0, 1024));
  app->add_option("--heads", command->bench.heads, "Query heads")->capture_default_str();
  app->add_option("--kv-heads", command->bench.kv_heads, "Key/value heads")->capture_default_str();
  app->add_option("--head-dim", command->bench.head_dim, "Values of a head")->capture_default_str();
  app->add_option("--runs", command->bench.runs, "Timed runs of each (default: 21 on cuda, else 3)")
      ->check(CLI::PositiveNumber);
  app->add_option("--strategies", command->strategies, "Comma-separated; the first is judged")
      ->capture_default_str();
  app->add_option("literal", command->literals,
                  "Forests instead of the usual rows: \"8 documents x 64 questions | 32, 2048, 256 "
                  "tokens\"");
  app->add_option("--rows", command->rows, "Rows of every leaf of those: 1 decodes, more prefill")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--only", command->only, "Only rows whose name contains one of these texts");
  app->add_flag("--costs", command->bench.measure_costs,
                "Measure what planning decides with, and show what it predicts");
  app->add_flag("--warm", command->warm, "Do not empty the caches between runs");
  app->add_option("--json", command->json, "Also write the figures to this file");
  return {app, [command] { return RunAttention(*command); }};
}

}  // namespace banyan::app
