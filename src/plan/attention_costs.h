// How long the attention of one layer takes, as a sum of few terms that each have a physical
// meaning. ItemSharing::kAuto decides by it; --explain and the receipt show what it predicts. The
// factors are a machine's own: built in (Kernels::BuiltInCosts) or measured
// (kernels/probe_costs.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "plan/attention_plan.h"

namespace banyan {

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
