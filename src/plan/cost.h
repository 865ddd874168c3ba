// What a step must cost and what a plan will cost, as counts of flops and bytes; the rates of a
// machine turn them into seconds. Nothing here measures anything.
#pragma once

#include <cstdint>
#include <span>

#include "plan/attention_plan.h"

namespace banyan {

struct PlanScratch;  // sharing.h

// The part of a model that costs time. All counts are for one device.
struct ModelSizes {
  double row_parameters = 0;    // weights that every row is multiplied by, all layers together
  double logit_parameters = 0;  // weights for rows whose logits are wanted: the vocabulary's and
                                // those of the last layer that come after its attention
  double weight_bytes = 0;      // read once per step, the output projection included
  int layers = 0;
  int heads = 0;
  int head_dim = 0;
  double kv_bytes_per_key = 0;  // K and V of one token, all layers together
};

// What one step does. A pair is one row with one key, all heads and layers together.
struct StepWork {
  double rows = 0;
  double logit_rows = 0;
  double pairs = 0;
  double keys = 0;  // keys read from memory
};

// Sums of cost over steps of one phase (all prefill, or all decode) give the phase's cost.
struct StepCost {
  double matrix_flops = 0, attention_flops = 0;
  double weight_bytes = 0, kv_bytes = 0;

  double flops() const { return matrix_flops + attention_flops; }
  double bytes() const { return weight_bytes + kv_bytes; }
  StepCost& operator+=(const StepCost& other);
};

struct MachineRates {
  double flops_per_second = 0;  // of matrix products; > 0
  double bytes_per_second = 0;  // of main (device) memory; > 0
};

// 2 flops per parameter and row, 4 * heads * head_dim per pair and layer; the weights once, the
// keys as often as `work` says. A step without logits leaves out the last layer's attention and
// what comes after it, which counts here all the same, but for the flops of products.
[[nodiscard]] StepCost CostOf(const ModelSizes& model, const StepWork& work);

// No execution of a phase takes less: max(flops / rate, bytes / bandwidth).
[[nodiscard]] double LimitSeconds(const StepCost& phase, const MachineRates& machine);

// Counts of one plan. computed >= visible; keys_read >= keys_unique.
struct PlanStatistics {
  std::int64_t rows = 0;
  std::int64_t items = 0;
  std::int64_t partials = 0;
  std::int64_t pairs_visible = 0;   // (row, key it sees)
  std::int64_t pairs_computed = 0;  // rows * keys of all items, masked ones included
  std::int64_t keys_read = 0;       // of all items
  std::int64_t keys_unique = 0;     // keys that at least one row sees
  std::int64_t longest_item = 0;    // rows * keys
};

// positions: [rows] as in Batch. Windows are unknown to a plan, so pairs outside one count as seen.
[[nodiscard]] PlanStatistics CountPlan(const AttentionPlan& plan,
                                       std::span<const std::int32_t> positions);
// The same; reuses the memory of `scratch`.
[[nodiscard]] PlanStatistics CountPlan(const AttentionPlan& plan,
                                       std::span<const std::int32_t> positions,
                                       PlanScratch& scratch);

// The work of a step executed by this plan, and the least that any plan of the step needs.
[[nodiscard]] StepWork WorkOf(const PlanStatistics& plan, double logit_rows);
[[nodiscard]] StepWork LeastWorkOf(const PlanStatistics& plan, double logit_rows);

}  // namespace banyan
