#include "plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/plan_forest.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;

std::string Explain(const PlanForest& forest, const PlanOptions& options) {
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), options);
  return ExplainPlan(plan, forest.nodes(), forest.positions(), options);
}

TEST(ExplainPlan, SmallTree) {
  PlanForest forest;
  const int p = forest.Add({.length = 2754});
  const int c = forest.Add({.parent = p, .length = 737});
  forest.Add({.parent = c, .length = 13, .own_rows = 13});
  forest.Add({.parent = c, .length = 12, .own_rows = 1});
  EXPECT_EQ(Explain(forest, {.sharing = ItemSharing::kTree, .share_levels = 1}),
            R"(node               keys position    own rows     readers  items keys read  read
0                  2754        0           -        0-13      3      2754  together
  1                 737     2754           -        0-13      2      1474  apart
    2                13     3491        0-12        0-12      1        13  alone
    3                12     3491          13          13      1        12  alone
14 rows, 7 items, 70 partials; 4253 keys read for 3516 (1.21x); 49055 pairs computed for 48977 (1.00x)
)");
}

TEST(ExplainPlan, SaysWhatIsStackedAndCutsLongListsShort) {
  PlanForest forest;
  const int c = forest.Add({.length = 10});
  for (int i = 0; i < 50; ++i) {
    forest.Add({.parent = c, .length = 4, .own_rows = 1, .stack = i / 2});
  }
  const std::string text = Explain(forest, {.sharing = ItemSharing::kStacked});
  EXPECT_THAT(text, HasSubstr("with its stack"));
  EXPECT_THAT(text, HasSubstr("... and 11 more nodes\n"));
}

TEST(ExplainPlan, ShowsBothWaysWithTheirPredictedTimes) {
  PlanForest forest;
  const int p = forest.Add({.length = 100});
  for (int i = 0; i < 3; ++i) forest.Add({.parent = p, .length = 10, .own_rows = 1});
  PlanOptions options{.sharing = ItemSharing::kAuto};
  options.costs[CostTerm::kFewKey] = 1e-8;
  options.costs[CostTerm::kManyUnit] = 7e-6;
  const std::string apart = Explain(forest, options);
  EXPECT_THAT(apart, HasSubstr("  apart (7.0 us of work together, 3.0 apart)\n"));
  EXPECT_THAT(apart,
              HasSubstr("attention of one layer: 3.3 us predicted; 7.3 us if shared nodes are "
                        "read together, 3.3 us apart, 3.3 us each as it costs less\n"));
  options.costs[CostTerm::kManyUnit] = 1e-6;
  EXPECT_THAT(Explain(forest, options),
              HasSubstr("  together (1.0 us of work together, 3.0 apart)"));
}

TEST(ExplainPlan, EmptyStep) {
  EXPECT_THAT(Explain(PlanForest(), {}), HasSubstr("0 rows, 0 items"));
}

TEST(ExplainCost, PredictionAndLimit) {
  const PlanStatistics plan{.rows = 2,
                            .pairs_visible = 1000,
                            .pairs_computed = 2000,
                            .keys_read = 1000,
                            .keys_unique = 500};
  const ModelSizes model{.row_parameters = 1e9,
                         .weight_bytes = 2e9,
                         .layers = 10,
                         .heads = 8,
                         .head_dim = 64,
                         .kv_bytes_per_key = 1e6};
  EXPECT_EQ(ExplainCost(plan, 0, model, {.flops_per_second = 1e12, .bytes_per_second = 1e12}),
            "4.04 GFLOP (attention 0.041), 3 GB (KV 1): 4.04 ms predicted, 4.02 ms at least\n");
}

}  // namespace
}  // namespace banyan
