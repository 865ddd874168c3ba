#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "plan/sharing.h"

namespace banyan {
namespace {

constexpr std::size_t kMaxNodes = 40;  // lines that still fit a screen

std::string Rows(RowRange rows) {
  if (rows.size() == 0) return "-";
  if (rows.size() == 1) return fmt::format("{}", rows.begin);
  return fmt::format("{}-{}", rows.begin, rows.end - 1);
}

const char* Reading(ItemSharing sharing, const NodeReaders& readers) {
  if (sharing == ItemSharing::kStacked) return "with its stack";
  if (readers.run_end - readers.run_begin < 2) return "alone";
  return sharing == ItemSharing::kTree ? "together" : "apart";
}

bool KnowsCosts(const PlanOptions& options) { return options.costs.seconds != CostTerms{}; }

double Ratio(std::int64_t a, std::int64_t b) {
  return b == 0 ? 1.0 : static_cast<double>(a) / static_cast<double>(b);
}

std::string Time(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

// Both ways to read a node, in microseconds of one worker.
std::string BothWays(const StepNodes& step, std::size_t node, const PlanOptions& options) {
  const NodeReaders& readers = step.readers.nodes[node];
  if (readers.run_end - readers.run_begin < 2 || !KnowsCosts(options)) return {};
  const NodeSeconds seconds = SecondsOfNode(step, node, options);
  return fmt::format(" ({:.1f} us of work together, {:.1f} apart)", seconds.together * 1e6,
                     seconds.apart * 1e6);
}

// All ways to read the step.
std::string AllWays(const StepNodes& step, const AttentionPlan& plan, const PlanOptions& options) {
  if (!KnowsCosts(options)) return {};
  const ReadingSeconds seconds = SecondsOfStep(step, options);
  return fmt::format(
      "attention of one layer: {} predicted; {} if shared nodes are read together, {} apart, {} "
      "each as it costs less\n",
      Time(SecondsOf(options.costs, CountReading(options.costs.form, plan))),
      Time(seconds.together), Time(seconds.apart), Time(seconds.mixed));
}

}  // namespace

std::string ExplainPlan(const AttentionPlan& plan, std::span<const PlanNode> nodes,
                        std::span<const std::int32_t> positions, const PlanOptions& options) {
  StepReaders readers;
  FindReaders(nodes, static_cast<std::int32_t>(positions.size()), readers);
  std::vector<ItemSharing> sharing;
  ChooseSharing(nodes, positions, readers, options, sharing);
  const StepNodes step{nodes, positions, readers};
  struct Reads {
    std::int64_t items = 0, keys = 0;
  };
  std::vector<Reads> reads(nodes.size());
  for (const WorkItem& item : plan.items) {
    ++reads[item.span].items;
    reads[item.span].keys += item.key_end - item.key_begin;
  }

  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<16}{:>7}{:>9}{:>12}{:>12}{:>7}{:>10}  {}\n", "node", "keys", "position",
                 "own rows", "readers", "items", "keys read", "read");
  std::vector<int> depth(nodes.size());
  for (std::size_t i = 0; i < std::min(nodes.size(), kMaxNodes); ++i) {
    const PlanNode& node = nodes[i];
    if (node.parent >= 0) depth[i] = depth[node.parent] + 1;
    const std::string name = fmt::format("{:{}}{}", "", 2 * std::min(depth[i], 5), i);
    fmt::format_to(out, "{:<16}{:>7}{:>9}{:>12}{:>12}{:>7}{:>10}  {}{}\n", name, node.length,
                   node.first_position, Rows({node.row_begin, node.row_end}),
                   Rows(readers.nodes[i].rows), reads[i].items, reads[i].keys,
                   Reading(sharing[i], readers.nodes[i]), BothWays(step, i, options));
  }
  if (nodes.size() > kMaxNodes) {
    fmt::format_to(out, "... and {} more nodes\n", nodes.size() - kMaxNodes);
  }
  const PlanStatistics count = CountPlan(plan, positions);
  fmt::format_to(out,
                 "{} rows, {} items, {} partials; {} keys read for {} ({:.2f}x); "
                 "{} pairs computed for {} ({:.2f}x)\n",
                 count.rows, count.items, count.partials, count.keys_read, count.keys_unique,
                 Ratio(count.keys_read, count.keys_unique), count.pairs_computed,
                 count.pairs_visible, Ratio(count.pairs_computed, count.pairs_visible));
  return text + AllWays(step, plan, options);
}

std::string ExplainCost(const PlanStatistics& plan, double logit_rows, const ModelSizes& model,
                        const MachineRates& machine) {
  const StepCost cost = CostOf(model, WorkOf(plan, logit_rows));
  const StepCost least = CostOf(model, LeastWorkOf(plan, logit_rows));
  return fmt::format(
      "{:.3g} GFLOP (attention {:.3g}), {:.3g} GB (KV {:.3g}): {} predicted, {} at least\n",
      cost.flops() / 1e9, cost.attention_flops / 1e9, cost.bytes() / 1e9, cost.kv_bytes / 1e9,
      Time(LimitSeconds(cost, machine)), Time(LimitSeconds(least, machine)));
}

}  // namespace banyan
