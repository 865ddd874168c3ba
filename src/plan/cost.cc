#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "plan/sharing.h"

namespace banyan {

StepCost& StepCost::operator+=(const StepCost& other) {
  matrix_flops += other.matrix_flops;
  attention_flops += other.attention_flops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

StepCost CostOf(const ModelSizes& model, const StepWork& work) {
  StepCost cost;
  cost.matrix_flops =
      2.0 * (model.row_parameters * work.rows + model.logit_parameters * work.logit_rows);
  cost.attention_flops = 4.0 * model.heads * model.head_dim * model.layers * work.pairs;
  cost.weight_bytes = model.weight_bytes;
  cost.kv_bytes = model.kv_bytes_per_key * work.keys;
  return cost;
}

double LimitSeconds(const StepCost& phase, const MachineRates& machine) {
  BANYAN_CHECK(machine.flops_per_second > 0 && machine.bytes_per_second > 0);
  return std::max(phase.flops() / machine.flops_per_second,
                  phase.bytes() / machine.bytes_per_second);
}

PlanStatistics CountPlan(const AttentionPlan& plan, std::span<const std::int32_t> positions) {
  PlanScratch scratch;
  return CountPlan(plan, positions, scratch);
}

PlanStatistics CountPlan(const AttentionPlan& plan, std::span<const std::int32_t> positions,
                         PlanScratch& scratch) {
  PlanStatistics count;
  count.rows = static_cast<std::int64_t>(positions.size());
  count.items = static_cast<std::int64_t>(plan.items.size());
  count.partials = plan.partials;
  std::vector<std::int64_t>& keys_seen = scratch.keys_seen;  // a row sees a prefix of a span
  keys_seen.assign(plan.spans.size(), 0);
  for (const WorkItem& item : plan.items) {
    const KvSpan& span = plan.spans[item.span];
    const std::int64_t keys = item.key_end - item.key_begin;
    const std::int64_t pairs = keys * (item.row_end - item.row_begin);
    count.pairs_computed += pairs;
    count.keys_read += keys;
    count.longest_item = std::max(count.longest_item, pairs);
    for (std::int32_t row = item.reader_begin; row < item.reader_end; ++row) {
      const std::int64_t seen = std::clamp<std::int64_t>(
          std::int64_t{positions[row]} - span.first_position + 1 - item.key_begin, 0, keys);
      count.pairs_visible += seen;
      if (seen > 0) {
        keys_seen[item.span] = std::max(keys_seen[item.span], item.key_begin + seen);
      }
    }
  }
  for (std::int64_t keys : keys_seen) count.keys_unique += keys;
  return count;
}

StepWork WorkOf(const PlanStatistics& plan, double logit_rows) {
  return {.rows = static_cast<double>(plan.rows),
          .logit_rows = logit_rows,
          .pairs = static_cast<double>(plan.pairs_computed),
          .keys = static_cast<double>(plan.keys_read)};
}

StepWork LeastWorkOf(const PlanStatistics& plan, double logit_rows) {
  return {.rows = static_cast<double>(plan.rows),
          .logit_rows = logit_rows,
          .pairs = static_cast<double>(plan.pairs_visible),
          .keys = static_cast<double>(plan.keys_unique)};
}

namespace {

constexpr std::int64_t Tiles(std::int64_t rows, std::int64_t tile) {
  return (rows + tile - 1) / tile;
}

double Mean(std::int64_t sum, std::int64_t count) {
  return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
}

// The share of one of `workers` in a sum over all KV heads, at least one unit's.
double Shared(const ReadingForm& form, std::int64_t sum, double one, int workers) {
  return std::max(one, static_cast<double>(sum * form.kv_heads) / workers);
}

constexpr double kExpectation = 0.05;  // weight of an expected factor beside a measurement
constexpr int kSweeps = 20000;         // a few milliseconds

// The sum over terms of factor * x should be `right`.
struct Equation {
  CostTerms factors{};
  double right = 1.0;
};
using Equations = std::vector<Equation>;

// Coordinate descent: one unknown after the other, never below 0, until nothing moves.
CostTerms Solve(const Equations& equations) {
  CostTerms x{}, squares{};
  std::vector<double> missing;
  for (const Equation& equation : equations) {
    missing.push_back(equation.right);
    for (std::size_t i = 0; i < x.size(); ++i) {
      squares[i] += equation.factors[i] * equation.factors[i];
    }
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (squares[i] == 0.0) continue;
      double wish = 0.0;
      for (std::size_t e = 0; e < equations.size(); ++e) {
        wish += equations[e].factors[i] * missing[e];
      }
      const double next = std::max(0.0, x[i] + wish / squares[i]);
      const double step = next - x[i];
      if (step == 0.0) continue;
      for (std::size_t e = 0; e < equations.size(); ++e) {
        missing[e] -= equations[e].factors[i] * step;
      }
      x[i] = next;
      moved = std::max(moved, std::abs(step) * std::sqrt(squares[i]));
    }
    if (moved < 1e-9) break;
  }
  return x;
}

}  // namespace

void ReadingCounts::Add(const ReadingForm& form, std::int64_t rows, std::int64_t keys,
                        std::int64_t items, std::int64_t longest) {
  partials += rows * items;
  if (rows < form.least_many_rows) {
    const std::int64_t tiles = Tiles(rows * form.ratio, form.few_tile);
    few_units += tiles * items;
    few_keys += tiles * keys;
    few_longest = std::max(few_longest, longest);
    return;
  }
  const std::int64_t tiles = Tiles(rows * form.ratio, form.many_tile);
  many_units += tiles * items;
  many_keys += tiles * keys;
  many_pairs += rows * keys;
  many_longest = std::max(many_longest, longest);
}

ReadingCounts& ReadingCounts::operator+=(const ReadingCounts& other) {
  few_units += other.few_units;
  few_keys += other.few_keys;
  many_units += other.many_units;
  many_keys += other.many_keys;
  many_pairs += other.many_pairs;
  few_longest = std::max(few_longest, other.few_longest);
  many_longest = std::max(many_longest, other.many_longest);
  partials += other.partials;
  rows += other.rows;
  return *this;
}

CostTerms TermsOf(const ReadingForm& form, const ReadingCounts& counts) {
  CostTerms terms{};
  const auto set = [&](CostTerm term, double times) {
    terms[static_cast<std::size_t>(term)] = times;
  };
  set(CostTerm::kStep, 1.0);
  if (form.launches) {
    const std::int64_t tasks = (counts.few_units + counts.many_units) * form.kv_heads;
    if (counts.many_units > 0) set(CostTerm::kManyStart, 1.0);
    if (counts.many_units > 0 && counts.few_units > 0 && tasks > form.workers) {
      set(CostTerm::kQueue, 1.0);
    }
    set(CostTerm::kList, Mean(counts.partials, counts.rows));
  }
  if (counts.few_units > 0) {
    const int workers = form.workers * form.few_per_worker;
    const auto longest = static_cast<double>(counts.few_longest);
    set(CostTerm::kFewUnit, Shared(form, counts.few_units, 1.0, workers));
    set(CostTerm::kFewKey, Shared(form, counts.few_keys, longest, workers));
  }
  if (counts.many_units > 0) {
    const auto longest = static_cast<double>(counts.many_longest);
    const double pairs = Mean(counts.many_pairs, counts.many_units);
    set(CostTerm::kManyUnit, Shared(form, counts.many_units, 1.0, form.workers));
    set(CostTerm::kManyKey, Shared(form, counts.many_keys, longest, form.workers));
    set(CostTerm::kManyPair, Shared(form, counts.many_pairs, pairs, form.workers));
  }
  set(CostTerm::kPartial, static_cast<double>(counts.partials) / form.workers);
  return terms;
}

double SecondsOf(const AttentionCosts& costs, const ReadingCounts& counts) {
  const CostTerms terms = TermsOf(costs.form, counts);
  double seconds = 0.0;
  for (std::size_t i = 0; i < terms.size(); ++i) seconds += terms[i] * costs.seconds[i];
  return seconds;
}

bool FasterInCuts(const AttentionCosts& costs, const ReadingCounts& groups,
                  const ReadingCounts& cuts) {
  return !costs.form.launches || SecondsOf(costs, cuts) <= SecondsOf(costs, groups);
}

ReadingCounts CountReading(const ReadingForm& form, const AttentionPlan& plan) {
  ReadingCounts counts;
  counts.rows = static_cast<std::int64_t>(plan.merge_begin.size()) - 1;
  for (const WorkItem& item : plan.items) {
    const std::int64_t keys = item.key_end - item.key_begin;
    counts.Add(form, item.row_end - item.row_begin, keys, 1, keys);
  }
  return counts;
}

AttentionCosts FitCosts(const AttentionCosts& expected, std::span<const MeasuredReading> measured) {
  Equations equations;
  for (const MeasuredReading& reading : measured) {
    Equation& equation = equations.emplace_back();
    equation.factors = TermsOf(expected.form, reading.counts);
    for (double& factor : equation.factors) factor /= reading.seconds;
  }
  for (std::size_t i = 0; i < expected.seconds.size(); ++i) {
    if (expected.seconds[i] <= 0.0) continue;
    Equation& equation = equations.emplace_back();
    equation.factors[i] = kExpectation / expected.seconds[i];
    equation.right = kExpectation;
  }
  return {expected.form, Solve(equations)};
}

double WorstError(const AttentionCosts& costs, std::span<const MeasuredReading> measured) {
  double worst = 0.0;
  for (const MeasuredReading& reading : measured) {
    const double predicted = SecondsOf(costs, reading.counts);
    worst = std::max(worst, std::abs(predicted / reading.seconds - 1.0));
  }
  return worst;
}

}  // namespace banyan
