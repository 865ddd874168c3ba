// The promise by simulation: over draws of the sample, recall and precision of the whole table hold
// as often as the confidence says.
#include "tasks/table/filter_promise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace banyan {
namespace {

// A table whose small model is right more or less often, and whose large model sometimes errs.
struct SimulatedTable {
  double true_share = 0.4;
  double sharpness = 2.0;  // how far the small model's probabilities lie apart
  double large_misses = 0.0, large_invents = 0.0;

  std::vector<JudgedRow> Rows(size_t count, std::mt19937& random) const {
    std::vector<JudgedRow> rows;
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    std::normal_distribution<double> normal(0.0, 1.5);
    for (size_t i = 0; i < count; ++i) {
      JudgedRow row;
      row.label = uniform(random) < true_share;
      const double logit = normal(random) + (row.label ? sharpness : -sharpness);
      // In steps, as rounded probabilities are: some are equal.
      row.small = std::round(1000.0 / (1.0 + std::exp(-logit))) / 1000.0;
      row.large = row.label ? uniform(random) >= large_misses : uniform(random) < large_invents;
      rows.push_back(row);
    }
    return rows;
  }
};

struct Outcome {
  double recall = 0.0, precision = 0.0, asked = 0.0;
};

Outcome Apply(const FilterBand& band, const std::vector<JudgedRow>& rows) {
  double is_true = 0, kept = 0, both = 0, asked = 0;
  for (const JudgedRow& row : rows) {
    const BandVerdict verdict = VerdictOf(band, row.small);
    const bool keep =
        verdict == BandVerdict::kKeep || (verdict == BandVerdict::kAskLarge && row.large);
    is_true += row.label ? 1 : 0;
    kept += keep ? 1 : 0;
    both += keep && row.label ? 1 : 0;
    asked += verdict == BandVerdict::kAskLarge ? 1 : 0;
  }
  return {both / is_true, both / kept, asked / static_cast<double>(rows.size())};
}

TEST(FilterPromise, BoundsAreThoseOfClopperAndPearson) {
  EXPECT_NEAR(LowerBound(10, 10, 0.025), std::pow(0.025, 0.1), 1e-9);
  EXPECT_NEAR(LowerBound(95, 100, 0.025), 0.8872, 1e-4);
  EXPECT_NEAR(LowerBound(1, 20, 0.05), 0.00256, 1e-5);
  EXPECT_EQ(LowerBound(0, 20, 0.05), 0.0);
  EXPECT_EQ(LowerBound(0, 0, 0.05), 0.0);
  // Of so many successes at the bound's own chance, as many or more come as often as the risk says.
  std::mt19937 random(1);
  const double bound = LowerBound(45, 50, 0.1);
  std::binomial_distribution<int> draws(50, bound);
  int as_many = 0;
  for (int i = 0; i < 20'000; ++i) as_many += draws(random) >= 45 ? 1 : 0;
  EXPECT_NEAR(as_many / 20'000.0, 0.1, 0.01);
}

TEST(FilterPromise, HoldsInAsManyDrawsAsTheConfidenceSays) {
  constexpr int kDraws = 200;
  const FilterGoal goal{.recall = 0.9, .precision = 0.85, .confidence = 0.95};
  const SimulatedTable tables[] = {{}, {0.4, 1.0}, {0.2, 2.5}, {0.5, 1.5, 0.02, 0.02}};
  std::mt19937 random(7);
  for (const SimulatedTable& table : tables) {
    const std::vector<JudgedRow> rows = table.Rows(20'000, random);
    int held = 0, promised = 0;
    double asked = 0.0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<JudgedRow> sample;
      std::ranges::sample(rows, std::back_inserter(sample), 800, random);
      std::ranges::shuffle(sample, random);
      const FilterBand band = ChooseBand(sample, goal);
      if (!band.problem.empty()) continue;
      ++promised;
      const Outcome outcome = Apply(band, rows);
      held += outcome.recall >= goal.recall && outcome.precision >= goal.precision ? 1 : 0;
      asked += outcome.asked;
    }
    EXPECT_GE(promised, kDraws * 9 / 10);
    EXPECT_GE(held, promised * 95 / 100) << table.sharpness;
    EXPECT_LT(asked / promised, 0.95) << table.sharpness;  // the small model decides some
  }
}

// What would be chosen by the shares on the sample alone, without bounds, breaks the promise: the
// simulation above can fail.
TEST(FilterPromise, SharesOfTheSampleAloneWouldNotHold) {
  std::mt19937 random(9);
  const std::vector<JudgedRow> rows = SimulatedTable{}.Rows(20'000, random);
  int held = 0;
  constexpr int kDraws = 200;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<JudgedRow> sample;
    std::ranges::sample(rows, std::back_inserter(sample), 800, random);
    std::vector<double> of_true;
    for (const JudgedRow& row : sample) {
      if (row.label) of_true.push_back(row.small);
    }
    std::ranges::sort(of_true);
    FilterBand naive;
    naive.low = of_true[of_true.size() / 10];
    naive.high = 2.0;
    held += Apply(naive, rows).recall >= 0.9 ? 1 : 0;
  }
  EXPECT_LT(held, kDraws * 80 / 100);
}

TEST(FilterPromise, WhatCannotBePromisedIsSaid) {
  std::mt19937 random(11);
  const SimulatedTable table{.large_misses = 0.3};
  EXPECT_NE(
      ChooseBand(table.Rows(1000, random), {.recall = 0.9}).problem.find("large model by itself"),
      std::string::npos);
  EXPECT_NE(ChooseBand(SimulatedTable{}.Rows(60, random), {.recall = 0.95})
                .problem.find("needs a sample"),
            std::string::npos);
  EXPECT_NE(ChooseBand(SimulatedTable{}.Rows(60, random), {.recall = 1.0})
                .problem.find("cannot be promised"),
            std::string::npos);
  EXPECT_FALSE(ChooseBand({}, {.precision = 0.5}).problem.empty());
}

TEST(FilterPromise, WithoutAGoalForOneSideTheLargeModelDecidesThere) {
  std::mt19937 random(12);
  const std::vector<JudgedRow> sample = SimulatedTable{}.Rows(1000, random);
  const FilterBand recall = ChooseBand(sample, {.recall = 0.9});
  EXPECT_GT(recall.low, 0.0);
  EXPECT_EQ(VerdictOf(recall, 1.0), BandVerdict::kAskLarge);
  const FilterBand precision = ChooseBand(sample, {.precision = 0.9});
  EXPECT_EQ(VerdictOf(precision, 0.0), BandVerdict::kAskLarge);
  EXPECT_EQ(VerdictOf(precision, 1.0), BandVerdict::kKeep);
}

}  // namespace
}  // namespace banyan
