// What a step must cost and what a plan will cost, as counts of flops and bytes; the rates of a
// machine turn them into seconds. Then how long attention takes on a machine, by terms that were
// measured there. Nothing here measures anything.
#pragma once

#include <array>
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

// How long the attention of one layer takes, as a sum of few terms that each have a physical
// meaning. ItemSharing::kAuto decides by it; --explain and the receipt show what it predicts. The
// factors are a machine's own: built in (Kernels::BuiltInCosts) or measured
// (kernels/probe_costs.h).
//
// How kernels divide items: an item of few rows and one of many are different code. A unit is what
// a worker does for one tile of an item's packed rows (row x query heads of a KV head) and one KV
// head; it reads all keys of the item.
struct ReadingForm {
  static constexpr int kWholeItem = 1 << 20;

  int least_many_rows = 2;     // rows from which on an item is of many
  int few_tile = kWholeItem;   // packed rows of a unit
  int many_tile = kWholeItem;  // the same, of items of many rows
  int ratio = 1;               // query heads of a KV head
  int kv_heads = 1;
  int workers = 1;         // threads, or multiprocessors
  int few_per_worker = 1;  // units of few rows that a worker does at once
  bool launches = false;   // each kind of item is a launch of its own, as merging is
};

// Seconds. What workers do is counted for one of them.
enum class CostTerm {
  kStep,       // whatever there is to do
  kManyStart,  // launches: where there are items of many rows
  kQueue,      // launches: where units of few rows wait for workers that those of many have
  kList,       // launches: a partial of a row's merge list, one after the other
  kFewUnit,    // a unit of few rows
  kFewKey,     // a key of such a unit, one after the other
  kManyUnit,   // a unit of many rows
  kManyKey,    // a key of such a unit, however many rows meet it
  kManyPair,   // a (row, key) pair of such a unit
  kPartial,    // a row's partial of an item, all heads: made, kept and merged
};
inline constexpr int kCostTerms = 10;
using CostTerms = std::array<double, kCostTerms>;

struct AttentionCosts {
  ReadingForm form;
  CostTerms seconds{};

  double& operator[](CostTerm term) { return seconds[static_cast<std::size_t>(term)]; }
  double operator[](CostTerm term) const { return seconds[static_cast<std::size_t>(term)]; }
};

// The items of a step, counted.
struct ReadingCounts {
  std::int64_t few_units = 0, few_keys = 0;  // of one KV head
  std::int64_t many_units = 0, many_keys = 0, many_pairs = 0;
  std::int64_t few_longest = 0, many_longest = 0;  // keys of the longest unit
  std::int64_t partials = 0;
  std::int64_t rows = 0;  // of the step, which have these partials

  // `items` items of `rows` rows with `keys` keys together, `longest` at most.
  void Add(const ReadingForm& form, std::int64_t rows, std::int64_t keys, std::int64_t items,
           std::int64_t longest);
  ReadingCounts& operator+=(const ReadingCounts& other);
};

// How often each term counts: the seconds of a step are the sum over terms. Workers take units as
// they come, so they end together, but not before the longest unit does.
CostTerms TermsOf(const ReadingForm& form, const ReadingCounts& counts);
double SecondsOf(const AttentionCosts& costs, const ReadingCounts& counts);

// Whether a step of few items is faster in cuts than in groups. Threads always want more items; a
// device that is told its costs weighs busy workers against long merge lists.
bool FasterInCuts(const AttentionCosts& costs, const ReadingCounts& groups,
                  const ReadingCounts& cuts);

ReadingCounts CountReading(const ReadingForm& form, const AttentionPlan& plan);

struct MeasuredReading {
  ReadingCounts counts;
  double seconds = 0.0;  // > 0
};

// Least squares of relative errors; no factor is negative. What the measurements leave open stays
// near `expected`, whose form they have; a factor that is 0 there is not expected to be anything.
AttentionCosts FitCosts(const AttentionCosts& expected, std::span<const MeasuredReading> measured);

// The largest |predicted / measured - 1|.
double WorstError(const AttentionCosts& costs, std::span<const MeasuredReading> measured);

}  // namespace banyan
