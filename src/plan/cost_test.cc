#include "plan/cost.h"

#include <gtest/gtest.h>

#include "plan/build.h"
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

}  // namespace
}  // namespace banyan
