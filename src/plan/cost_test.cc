#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/build.h"
#include "plan/cost.h"
#include "support/plan_forest.h"

namespace banyan {

namespace {

// Qwen3-8B in bf16 on the H200 of the performance notes.
constexpr ModelSizes kQwen3{.row_parameters = 6.95e9,
                            .logit_parameters = 0.62e9,
                            .weight_bytes = 15.1e9,
                            .layers = 36,
                            .heads = 32,
                            .head_dim = 128,
                            .kv_bytes_per_key = 36 * 2 * 8 * 128 * 2};
constexpr MachineRates kH200{.flops_per_second = 680e12, .bytes_per_second = 3.7e12};

// 256 streams that decode one token each on one shared prefix.
PlanForest SharedPrefix(int prefix, int own) {
  PlanForest forest;
  const int p = forest.Add({.length = prefix});
  for (int i = 0; i < 256; ++i) forest.Add({.parent = p, .length = own, .own_rows = 1});
  return forest;
}

TEST(CountPlan, SharedPrefix) {
  const PlanForest forest = SharedPrefix(2048, 64);
  const AttentionPlan tree = BuildPlan(forest.nodes(), forest.positions(), {});
  const PlanStatistics count = CountPlan(tree, forest.positions());
  EXPECT_EQ(count.rows, 256);
  EXPECT_EQ(count.items, 2 * 4 + 256);  // two groups, four blocks of 64 rows
  EXPECT_EQ(count.partials, 256 * 3);
  EXPECT_EQ(count.pairs_visible, 256 * 2112);
  EXPECT_EQ(count.pairs_computed, count.pairs_visible);
  EXPECT_EQ(count.keys_unique, 2048 + 256 * 64);
  EXPECT_EQ(count.keys_read, 4 * 2048 + 256 * 64);
  EXPECT_EQ(count.longest_item, 64 * 1024);
}

TEST(CountPlan, StackedWastesPairsNotKeys) {
  PlanForest forest;
  const int c = forest.Add({.length = 100, .stack = 0});
  for (int i = 0; i < 4; ++i) {
    forest.Add({.parent = c, .length = 10, .own_rows = 1, .stack = 0});
  }
  const AttentionPlan plan =
      BuildPlan(forest.nodes(), forest.positions(), {.sharing = ItemSharing::kStacked});
  const PlanStatistics count = CountPlan(plan, forest.positions());
  EXPECT_EQ(count.pairs_visible, 4 * 110);
  EXPECT_EQ(count.pairs_computed, 4 * 140);
  EXPECT_EQ(count.keys_read, count.keys_unique);
}

TEST(CountPlan, CausalBlocksComputeSomeHiddenPairs) {
  PlanForest forest;
  forest.Add({.length = 4, .own_rows = 4});
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {.max_item_rows = 2});
  const PlanStatistics count = CountPlan(plan, forest.positions());
  EXPECT_EQ(count.pairs_visible, 1 + 2 + 3 + 4);
  EXPECT_EQ(count.pairs_computed, 2 * 2 + 2 * 4);
  EXPECT_EQ(count.keys_unique, 4);
}

// The limits that the performance notes estimate: 37 k and 25 k tokens/s.
TEST(StepCost, DecodingOnASharedPrefixIsAsFastAsTheNotesSay) {
  for (const auto& [prefix, tokens_per_second] : {std::pair{2048, 37e3}, std::pair{16384, 25e3}}) {
    const PlanForest forest = SharedPrefix(prefix, 64);
    const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
    const PlanStatistics count = CountPlan(plan, forest.positions());
    const StepCost cost = CostOf(kQwen3, LeastWorkOf(count, 256));
    EXPECT_DOUBLE_EQ(cost.attention_flops, 4.0 * 32 * 128 * 36 * 256 * (prefix + 64));
    EXPECT_NEAR(256 / LimitSeconds(cost, kH200), tokens_per_second, 0.25 * tokens_per_second);
    EXPECT_GE(LimitSeconds(CostOf(kQwen3, WorkOf(count, 256)), kH200), LimitSeconds(cost, kH200));
  }
}

TEST(StepCost, OneStreamIsBoundByTheWeights) {
  const StepCost cost = CostOf(kQwen3, {.rows = 1, .logit_rows = 1, .pairs = 2048, .keys = 2048});
  EXPECT_NEAR(1 / LimitSeconds(cost, kH200), 240, 10);
}

TEST(StepCost, AddsUp) {
  StepCost phase = CostOf(kQwen3, {.rows = 10, .logit_rows = 0, .pairs = 55, .keys = 10});
  phase += CostOf(kQwen3, {.rows = 1, .logit_rows = 1, .pairs = 11, .keys = 11});
  const StepCost both = CostOf(kQwen3, {.rows = 11, .logit_rows = 1, .pairs = 66, .keys = 21});
  EXPECT_DOUBLE_EQ(phase.flops(), both.flops());
  EXPECT_DOUBLE_EQ(phase.kv_bytes, both.kv_bytes);
  EXPECT_DOUBLE_EQ(phase.weight_bytes, 2 * both.weight_bytes);
}

ReadingForm DeviceForm() {
  return {.least_many_rows = 5,
          .few_tile = 8,
          .many_tile = 128,
          .ratio = 4,
          .kv_heads = 8,
          .workers = 132,
          .few_per_worker = 2,
          .launches = true};
}

ReadingCounts CountsOf(const ReadingForm& form, int items, int rows, int keys) {
  ReadingCounts counts;
  counts.Add(form, rows, std::int64_t{items} * keys, items, keys);
  counts.rows = rows;
  return counts;
}

TEST(AttentionCosts, ItemsOfFewAndOfManyRowsAreCountedInTheirTiles) {
  const ReadingForm form = DeviceForm();
  const ReadingCounts few = CountsOf(form, 2, 3, 100);  // twelve packed rows: two tiles
  EXPECT_EQ(few.few_units, 4);
  EXPECT_EQ(few.few_keys, 400);
  EXPECT_EQ(few.many_units, 0);
  EXPECT_EQ(few.partials, 6);
  const ReadingCounts many = CountsOf(form, 2, 33, 100);  // 132 packed rows: two tiles
  EXPECT_EQ(many.few_units, 0);
  EXPECT_EQ(many.many_units, 4);
  EXPECT_EQ(many.many_keys, 400);
  EXPECT_EQ(many.many_pairs, 33 * 200);
}

TEST(AttentionCosts, APlanIsCountedAsItsItems) {
  PlanForest forest;
  const int p = forest.Add({.length = 1500});
  for (int i = 0; i < 3; ++i) forest.Add({.parent = p, .length = 5, .own_rows = 1});
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
  const ReadingCounts counts = CountReading({}, plan);  // two groups for three rows
  EXPECT_EQ(counts.many_units, 2);
  EXPECT_EQ(counts.many_keys, 1500);
  EXPECT_EQ(counts.many_pairs, 4500);
  EXPECT_EQ(counts.few_units, 3);
  EXPECT_EQ(counts.few_keys, 15);
  EXPECT_EQ(counts.partials, plan.partials);
  EXPECT_EQ(counts.rows, 3);
}

TEST(AttentionCosts, WorkersShareUnitsAndOneUnitIsNotShared) {
  AttentionCosts costs{.form = {.kv_heads = 2, .workers = 4}};
  costs[CostTerm::kFewUnit] = 1.0;
  EXPECT_DOUBLE_EQ(SecondsOf(costs, CountsOf(costs.form, 1, 1, 10)), 1.0);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, CountsOf(costs.form, 10, 1, 10)), 5.0);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, {}), 0.0);
  costs[CostTerm::kFewUnit] = 0.0;
  costs[CostTerm::kFewKey] = 1.0;
  ReadingCounts counts = CountsOf(costs.form, 1, 1, 100);
  counts += CountsOf(costs.form, 20, 1, 5);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, counts),
                   100.0);  // the longest; all would take the four 100, too
  counts += CountsOf(costs.form, 1, 1, 60);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, counts), 130.0);
}

TEST(AttentionCosts, LaunchesCostWhereThereAreBothKinds) {
  AttentionCosts costs{.form = DeviceForm()};
  costs[CostTerm::kManyStart] = 1.0;
  costs[CostTerm::kQueue] = 10.0;
  ReadingCounts counts = CountsOf(costs.form, 1, 16, 64);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, counts), 1.0);
  counts += CountsOf(costs.form, 4, 1, 64);  // 40 units: there is a worker for each
  EXPECT_DOUBLE_EQ(SecondsOf(costs, counts), 1.0);
  counts += CountsOf(costs.form, 16, 1, 64);
  EXPECT_DOUBLE_EQ(SecondsOf(costs, counts), 11.0);
}

std::vector<MeasuredReading> TimesOf(const AttentionCosts& costs) {
  std::vector<MeasuredReading> measured;
  for (const int items : {1, 4, 40, 200}) {
    for (const int rows : {1, 3, 8, 24}) {
      for (const int keys : {16, 128, 1000}) {
        const ReadingCounts counts = CountsOf(costs.form, items, rows, keys);
        measured.push_back({counts, SecondsOf(costs, counts)});
        ReadingCounts both = counts;
        both += CountsOf(costs.form, 30, 1, 32);
        measured.push_back({both, SecondsOf(costs, both)});
      }
    }
  }
  return measured;
}

TEST(FitCosts, FindsTheCostsThatTimesWereMadeOf) {
  AttentionCosts costs{.form = DeviceForm()};
  costs.seconds = {11e-6, 1e-6, 3e-6, 3e-7, 2e-7, 1e-8, 1e-6, 1.4e-8, 1e-10, 1e-6};
  const std::vector<MeasuredReading> measured = TimesOf(costs);
  EXPECT_LT(WorstError(FitCosts({.form = costs.form}, measured), measured), 0.01);
  AttentionCosts expected = costs;  // twice as much as is true, or half
  for (size_t i = 0; i < expected.seconds.size(); ++i) expected.seconds[i] *= i % 2 == 0 ? 2 : 0.5;
  const AttentionCosts found = FitCosts(expected, measured);
  EXPECT_LT(WorstError(found, measured), 0.03);
  EXPECT_NEAR(found[CostTerm::kStep], costs[CostTerm::kStep], 0.1 * costs[CostTerm::kStep]);
  EXPECT_NEAR(found[CostTerm::kFewKey], costs[CostTerm::kFewKey], 0.1 * costs[CostTerm::kFewKey]);
}

TEST(FitCosts, WhatIsNotMeasuredIsAsExpected) {
  AttentionCosts expected{.form = DeviceForm()};
  expected[CostTerm::kStep] = 10e-6;
  expected[CostTerm::kManyKey] = 1e-8;
  const ReadingCounts few = CountsOf(expected.form, 1, 1, 10);
  const AttentionCosts found = FitCosts(expected, std::vector<MeasuredReading>{{few, 20e-6}});
  EXPECT_NEAR(found[CostTerm::kManyKey], 1e-8, 1e-12);
  EXPECT_NEAR(SecondsOf(found, few), 20e-6, 1e-6);
}

// What noise would make negative is nothing.
TEST(FitCosts, NoCostIsNegative) {
  AttentionCosts costs{.form = {.kv_heads = 2, .workers = 2}};
  costs[CostTerm::kFewKey] = 1e-8;
  costs[CostTerm::kManyKey] = 2e-8;
  costs[CostTerm::kManyPair] = 1e-9;
  std::vector<MeasuredReading> measured = TimesOf(costs);
  for (size_t i = 0; i < measured.size(); ++i) measured[i].seconds *= i % 2 == 0 ? 0.97 : 1.03;
  const AttentionCosts found = FitCosts({.form = costs.form}, measured);
  for (const double seconds : found.seconds) EXPECT_GE(seconds, 0.0);
  EXPECT_LT(WorstError(found, measured), 0.1);
}

}  // namespace

}  // namespace banyan
