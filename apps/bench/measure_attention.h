// Attention by itself, for benchmarks: one layer over a regular forest, with random KV and queries,
// planned as the engine plans its steps and computed by the backend's own operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/model.h"
#include "plan/attention_plan.h"
#include "plan/batch.h"

namespace banyan {

// To fill KV memory before anything is timed: rows of a batch at a time, which attend to nothing.
// Rows [begin, begin + most) of the batch, or those that it has; no logits are wanted of them.
inline Batch RowsFrom(const Batch& all, int begin, int most) {
  const int end = std::min(all.rows(), begin + most);
  const auto part = [&](const std::vector<std::int32_t>& values) {
    return std::vector<std::int32_t>(values.begin() + begin, values.begin() + end);
  };
  return {part(all.tokens), part(all.positions), part(all.slots), {}, {}, {}};
}

inline AttentionPlan PlanWithoutReading(const Batch& batch) {
  AttentionPlan plan;
  plan.merge_begin.assign(static_cast<std::size_t>(batch.rows()) + 1, 0);
  return plan;
}

// Below every node of the level above, or at the top: so many nodes of so many tokens each.
struct ForestLevel {
  int branches = 1;
  int tokens = 0;
};

struct AttentionTask {
  std::vector<ForestLevel> levels;  // from the roots down
  // The last tokens of every leaf are the rows of the step: 1 in a decode step, all in prefill.
  int rows_per_leaf = 1;
};

struct AttentionTime {
  Strategy strategy = Strategy::kTree;
  double median_seconds = 0.0, least_seconds = 0.0;
  double predicted_seconds = 0.0;  // by the costs that `auto` decides with
  std::int64_t work_items = 0, keys_read = 0;
};

struct AttentionReport {
  int rows = 0;
  std::int64_t keys = 0;       // stored, each once
  double limit_seconds = 0.0;  // the least for these keys and flops at the machine's measured rates
  // Whether all strategies gave the same bits; if not, `times` is empty and `difference` says
  // where.
  bool equal = false;
  std::string difference;
  std::vector<AttentionTime> times;  // in the order asked for
};

struct AttentionBenchOptions {
  int heads = 32, kv_heads = 8, head_dim = 128;
  int runs = 20;
  bool empty_caches = true;    // before every run
  bool measure_costs = false;  // of planning, instead of those built in
};

class AttentionBench {
 public:
  // Of `load` only device, precision, kv_type and threads count. Throws kUsage on a bad shape.
  AttentionBench(const LoadOptions& load, const AttentionBenchOptions& options);
  ~AttentionBench();

  std::string backend_name() const;
  double flops_per_second() const;  // measured, of large products
  double bytes_per_second() const;  // measured, of the device's memory
  std::string costs() const;        // of planning, for people

  // Compares the strategies' results bit for bit, then times each. Throws kUsage on a bad task.
  AttentionReport Measure(const AttentionTask& task, const std::vector<Strategy>& strategies);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
