// Attention alone: filling KV, planning, timing, comparing strategies.
#include "measure_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "engine/request/strategy.h"
#include "kernels/probe_costs.h"
#include "load/kernel_options.h"
#include "measure_attention.h"
#include "plan/cost.h"

namespace banyan {
namespace {

constexpr int kTableRows = 4096;   // random rows that keys and queries are taken from
constexpr int kRowsAtOnce = 4096;  // stored in one step
constexpr std::int64_t kMostKeys = std::int64_t{1} << 24;

// The forest's nodes with their pages, and the rows of the step.
struct Layout {
  std::vector<PlanNode> nodes;
  std::vector<std::vector<std::int32_t>> pages;  // of each node
  Batch keys;                                    // every key once, as rows to store
  Batch rows;                                    // of the step: also among the keys
  int page_count = 0;
};

// Which row of the table a slot holds: every slot its own, so that spans differ.
TokenId TableRow(std::int32_t slot) {
  return static_cast<TokenId>(static_cast<std::uint32_t>(slot) * 2654435761u % kTableRows);
}

void AppendKey(std::int32_t slot, std::int32_t position, Batch& batch) {
  batch.tokens.push_back(TableRow(slot));
  batch.positions.push_back(position);
  batch.slots.push_back(slot);
}

class LayoutMaker {
 public:
  explicit LayoutMaker(const AttentionTask& task) : task_(task) {}

  Layout Make() {
    AddLevel(0, -1, 0);
    // Spans of pages only now, when the lists no longer move.
    for (size_t n = 0; n < layout_.nodes.size(); ++n) layout_.nodes[n].pages = layout_.pages[n];
    return std::move(layout_);
  }

 private:
  void AddLevel(size_t level, std::int32_t parent, std::int32_t first_position) {
    for (int branch = 0; branch < task_.levels[level].branches; ++branch) {
      // A stack is a node of the second level with all below it, or a root without any.
      if (level == 1 || task_.levels.size() == 1) ++stack_;
      const auto index = static_cast<std::int32_t>(layout_.nodes.size());
      AddNode(level, parent, first_position);
      if (level + 1 < task_.levels.size()) {
        AddLevel(level + 1, index, first_position + task_.levels[level].tokens);
      }
    }
  }

  void AddNode(size_t level, std::int32_t parent, std::int32_t first_position) {
    const int tokens = task_.levels[level].tokens;
    const bool leaf = level + 1 == task_.levels.size();
    PlanNode node;
    node.parent = parent;
    node.length = tokens;
    node.first_position = first_position;
    node.stack = level == 0 && !leaf ? -1 : stack_;
    node.row_begin = layout_.rows.rows();
    std::vector<std::int32_t>& pages = layout_.pages.emplace_back();
    for (int key = 0; key < tokens; ++key) {
      if (key % kPageTokens == 0) pages.push_back(layout_.page_count++);
      const std::int32_t slot = pages.back() * kPageTokens + key % kPageTokens;
      AppendKey(slot, first_position + key, layout_.keys);
      if (leaf && key >= tokens - task_.rows_per_leaf) {
        AppendKey(slot, first_position + key, layout_.rows);
      }
    }
    node.row_end = layout_.rows.rows();
    layout_.nodes.push_back(node);
  }

  const AttentionTask& task_;
  Layout layout_;
  int stack_ = -1;
};

void CheckTask(const AttentionTask& task) {
  std::int64_t nodes = 1, keys = 0;
  for (const ForestLevel& level : task.levels) {
    if (level.branches < 1 || level.tokens < 1 || level.branches > kMostKeys ||
        level.tokens > kMostKeys) {
      Throw(ErrorKind::kUsage, "a level has {} x {} tokens: expected at least one of each",
            level.branches, level.tokens);
    }
    nodes *= level.branches;
    keys += nodes * level.tokens;
    if (nodes > kMostKeys || keys > kMostKeys) {
      Throw(ErrorKind::kUsage, "the forest has more than {} tokens", kMostKeys);
    }
  }
  if (task.levels.empty()) Throw(ErrorKind::kUsage, "the forest has no level");
  if (task.rows_per_leaf < 1 || task.rows_per_leaf > task.levels.back().tokens) {
    Throw(ErrorKind::kUsage, "{} rows of a leaf of {} tokens: expected 1 to all",
          task.rows_per_leaf, task.levels.back().tokens);
  }
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

KvShape KvShapeOf(const AttentionBenchOptions& options) {
  return {1, options.kv_heads, options.head_dim};
}

}  // namespace

struct AttentionBench::State {
  State(const LoadOptions& load, const AttentionBenchOptions& bench_options) {
    options = bench_options;
    if (options.heads < 1 || options.kv_heads < 1 || options.heads % options.kv_heads != 0 ||
        options.head_dim < 2 || options.head_dim % 2 != 0 || options.runs < 1) {
      Throw(ErrorKind::kUsage,
            "{} heads, {} KV heads of {} values, {} runs: expected KV heads that divide the heads, "
            "an even head size and at least one run",
            options.heads, options.kv_heads, options.head_dim, options.runs);
    }
    kernels = MakeKernels(load.device, KernelOptionsOf(load));
    const float scale = 1.0f / std::sqrt(static_cast<float>(options.head_dim));
    shape = {options.heads, options.kv_heads, options.head_dim, 0, scale};
    RopeTable rope;
    for (int i = 0; i < options.head_dim / 2; ++i) {
      rope.inverse_frequency.push_back(
          static_cast<float>(std::pow(1e6, -2.0 * i / options.head_dim)));
    }
    kernels->SetRopes(std::span(&rope, 1));
    table = kernels->RandomMatrix({kTableRows, qkv_columns(), 5, 1.0f});
    rates = kernels->MeasureRates();
    costs = BuiltInCosts(*kernels, shape);
    costs_from = "built in";
    if (!options.measure_costs) return;
    const ProbedCosts probed = ProbeCosts(*kernels, shape);
    costs = probed.costs;
    costs_from = fmt::format("measured in {:.2f} s, worst error of a probe {:.0f} %{}{}",
                             probed.seconds, 100.0 * probed.worst_error,
                             probed.trusted ? "" : ", not trusted: ", probed.why_not);
  }

  std::int64_t qkv_columns() const {
    return std::int64_t{options.heads + 2 * options.kv_heads} * options.head_dim;
  }

  // K and V of all keys.
  void Store(const Batch& keys) {
    const Tensor room = kernels->NewTensor(std::min(kRowsAtOnce, keys.rows()), qkv_columns());
    for (int begin = 0; begin < keys.rows(); begin += kRowsAtOnce) {
      const Batch batch = RowsFrom(keys, begin, kRowsAtOnce);
      const auto step = kernels->Upload(batch, PlanWithoutReading(batch));
      Tensor rows = room.Prefix(batch.rows());
      kernels->Embed(*step, *table, rows);
      kernels->RotateAndStore(*step, 0, shape, {}, rows, *kv);
    }
  }

  std::vector<float> Attend(const Layout& layout, const AttentionPlan& plan) {
    const auto step = kernels->Upload(layout.rows, plan);
    kernels->Embed(*step, *table, qkv);
    kernels->RotateAndStore(*step, 0, shape, {}, qkv, *kv);
    kernels->Attend(*step, 0, shape, qkv, *kv, out);
    const auto columns = static_cast<size_t>(out.columns);
    std::vector<float> values(static_cast<size_t>(out.rows) * columns);
    for (std::int64_t row = 0; row < out.rows; ++row) {
      kernels->Download(out, row,
                        std::span(values).subspan(static_cast<size_t>(row) * columns, columns));
    }
    return values;
  }

  // Where two results differ first; empty when they do not.
  std::string Difference(const std::vector<float>& a, const std::vector<float>& b) const {
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
      const auto head_dim = static_cast<size_t>(options.head_dim);
      const size_t head = i / head_dim, heads = static_cast<size_t>(options.heads);
      return fmt::format("row {}, head {}, value {}: {} and {}", head / heads, head % heads,
                         i % head_dim, a[i], b[i]);
    }
    return {};
  }

  // Queries are where the last Attend left them.
  AttentionTime Time(const Layout& layout, const AttentionPlan& plan) {
    const auto step = kernels->Upload(layout.rows, plan);
    const auto attend = [&] { kernels->Attend(*step, 0, shape, qkv, *kv, out); };
    attend();
    const std::vector<double> seconds =
        kernels->TimeRuns({options.runs, options.empty_caches}, attend);
    AttentionTime time;
    time.median_seconds = Median(seconds);
    time.least_seconds = *std::min_element(seconds.begin(), seconds.end());
    return time;
  }

  double LimitOf(const PlanStatistics& counts) const {
    if (rates.flops_per_second <= 0.0 || rates.bytes_per_second <= 0.0) return 0.0;
    ModelSizes layer;
    layer.layers = 1;
    layer.heads = options.heads;
    layer.head_dim = options.head_dim;
    layer.kv_bytes_per_key = static_cast<double>(kernels->KvPageBytes(KvShapeOf(options))) /
                             static_cast<double>(kPageTokens);
    return LimitSeconds(CostOf(layer, LeastWorkOf(counts, 0)), rates);
  }

  AttentionBenchOptions options;
  std::unique_ptr<Kernels> kernels;
  AttentionShape shape;
  std::shared_ptr<const Matrix> table;  // [kTableRows, qkv columns]
  MachineRates rates;
  AttentionCosts costs;
  std::string costs_from;
  std::shared_ptr<KvMemory> kv;  // of the task at hand, as the tensors
  Tensor qkv;                    // [rows, qkv columns]
  Tensor out;                    // [rows, heads * head_dim]
};

AttentionBench::AttentionBench(const LoadOptions& load, const AttentionBenchOptions& options)
    : state_(std::make_unique<State>(load, options)) {}
AttentionBench::~AttentionBench() = default;

std::string AttentionBench::backend_name() const { return state_->kernels->name(); }
double AttentionBench::flops_per_second() const { return state_->rates.flops_per_second; }
double AttentionBench::bytes_per_second() const { return state_->rates.bytes_per_second; }
std::string AttentionBench::costs() const {
  const AttentionCosts& costs = state_->costs;
  const auto micros = [&](CostTerm term) { return costs[term] * 1e6; };
  const auto nanos = [&](CostTerm term) { return costs[term] * 1e9; };
  return fmt::format(
      "step {:.3g} us, many {:.3g} us, queue {:.3g} us, list {:.3g} us; unit {:.3g} / {:.3g} us, "
      "key {:.3g} / {:.3g} ns, pair {:.3g} ns, partial {:.3g} ns ({})",
      micros(CostTerm::kStep), micros(CostTerm::kManyStart), micros(CostTerm::kQueue),
      micros(CostTerm::kList), micros(CostTerm::kFewUnit), micros(CostTerm::kManyUnit),
      nanos(CostTerm::kFewKey), nanos(CostTerm::kManyKey), nanos(CostTerm::kManyPair),
      nanos(CostTerm::kPartial), state_->costs_from);
}

AttentionReport AttentionBench::Measure(const AttentionTask& task,
                                        const std::vector<Strategy>& strategies) {
  CheckTask(task);
  State& s = *state_;
  const Layout layout = LayoutMaker(task).Make();
  AttentionReport report;
  report.rows = layout.rows.rows();
  report.keys = layout.keys.rows();
  s.kv = nullptr;  // before the next is made: both may not fit
  s.kv = s.kernels->NewKvMemory(KvShapeOf(s.options), layout.page_count);
  s.Store(layout.keys);
  s.qkv = s.kernels->NewTensor(report.rows, s.qkv_columns());
  s.out = s.kernels->NewTensor(report.rows, std::int64_t{s.options.heads} * s.options.head_dim);

  std::vector<AttentionPlan> plans;
  std::vector<float> first;
  for (const Strategy strategy : strategies) {
    PlanOptions options = PlanOptionsFor(strategy, s.shape, *s.kernels);
    options.costs = s.costs;
    plans.push_back(BuildPlan(layout.nodes, layout.rows.positions, options));
    std::vector<float> values = s.Attend(layout, plans.back());
    if (first.empty())
      first = std::move(values);
    else if (const std::string where = s.Difference(first, values); !where.empty()) {
      report.difference = fmt::format("{} and {}, {}", StrategyName(strategies.front()),
                                      StrategyName(strategy), where);
      return report;
    }
  }
  report.equal = true;
  for (size_t i = 0; i < strategies.size(); ++i) {
    const PlanStatistics counts = CountPlan(plans[i], layout.rows.positions);
    AttentionTime& time = report.times.emplace_back(s.Time(layout, plans[i]));
    time.strategy = strategies[i];
    time.work_items = counts.items;
    time.keys_read = counts.keys_read;
    time.predicted_seconds = SecondsOf(s.costs, CountReading(s.costs.form, plans[i]));
    report.limit_seconds = s.LimitOf(counts);
  }
  return report;
}

}  // namespace banyan
