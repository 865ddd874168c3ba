#include "plan/attention_costs.h"

#include <algorithm>

namespace banyan {
namespace {

constexpr std::int64_t Tiles(std::int64_t rows, std::int64_t tile) {
  return (rows + tile - 1) / tile;
}

// How many units each worker has, one after the other.
double UnitsPerWorker(const ReadingForm& form, std::int64_t units) {
  if (units == 0) return 0.0;
  const std::int64_t tasks = units * form.kv_heads;
  return std::max(1.0, static_cast<double>(tasks) / form.workers);
}

double Mean(std::int64_t sum, std::int64_t count) {
  return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace

void ReadingCounts::Add(const ReadingForm& form, std::int64_t rows, std::int64_t keys,
                        std::int64_t items) {
  partials += rows * items;
  if (rows < form.least_many_rows) {
    const std::int64_t tiles = Tiles(rows * form.ratio, form.few_tile);
    few_units += tiles * items;
    few_keys += tiles * keys;
    return;
  }
  const std::int64_t tiles = Tiles(rows * form.ratio, form.many_tile);
  many_units += tiles * items;
  many_keys += tiles * keys;
  many_pairs += rows * keys;
}

ReadingCounts& ReadingCounts::operator+=(const ReadingCounts& other) {
  few_units += other.few_units;
  few_keys += other.few_keys;
  many_units += other.many_units;
  many_keys += other.many_keys;
  many_pairs += other.many_pairs;
  partials += other.partials;
  rows += other.rows;
  return *this;
}

CostTerms TermsOf(const ReadingForm& form, const ReadingCounts& counts) {
  const double few = UnitsPerWorker(form, counts.few_units);
  const double many = UnitsPerWorker(form, counts.many_units);
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
  set(CostTerm::kFewUnit, few);
  set(CostTerm::kFewKey, few * Mean(counts.few_keys, counts.few_units));
  set(CostTerm::kManyUnit, many);
  set(CostTerm::kManyKey, many * Mean(counts.many_keys, counts.many_units));
  set(CostTerm::kManyPair, many * Mean(counts.many_pairs, counts.many_units));
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
    counts.Add(form, item.row_end - item.row_begin, item.key_end - item.key_begin, 1);
  }
  return counts;
}

}  // namespace banyan
