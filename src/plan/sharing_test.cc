// When readers of a node read it apart. Costs and times are those of an H200 (32 query heads, 8 KV
// heads of 128, one layer, microseconds measured by `bench attention`).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "plan/sharing.h"
#include "support/plan_forest.h"

namespace banyan {

namespace {

PlanOptions H200() {
  PlanOptions options{.sharing = ItemSharing::kAuto, .max_item_rows = 32, .min_items = 17};
  options.costs.form = {.least_many_rows = 5,
                        .few_tile = 8,
                        .many_tile = 128,
                        .ratio = 4,
                        .kv_heads = 8,
                        .workers = 132,
                        .few_per_worker = 2,
                        .launches = true};
  AttentionCosts& costs = options.costs;
  costs[CostTerm::kStep] = 9.7e-6;
  costs[CostTerm::kManyStart] = 0.1e-6;
  costs[CostTerm::kQueue] = 3.8e-6;
  costs[CostTerm::kList] = 0.315e-6;
  costs[CostTerm::kFewUnit] = 0.5e-6;
  costs[CostTerm::kFewKey] = 20e-9;
  costs[CostTerm::kManyUnit] = 1.2e-6;
  costs[CostTerm::kManyKey] = 13.9e-9;
  costs[CostTerm::kPartial] = 1.5e-6;
  return options;
}

PlanForest SharedBy(int streams, int prefix, int own) {
  PlanForest forest;
  const int above = forest.Add({.length = prefix});
  for (int i = 0; i < streams; ++i) forest.Add({.parent = above, .length = own, .own_rows = 1});
  return forest;
}

std::vector<ItemSharing> Chosen(const PlanForest& forest, const PlanOptions& options) {
  StepReaders readers;
  FindReaders(forest.nodes(), forest.rows(), readers);
  std::vector<ItemSharing> chosen;
  ChooseSharing(forest.nodes(), forest.positions(), readers, options, chosen);
  return chosen;
}

TEST(ReadingChoice, PrefixesAreReadAsAnH200ReadsThemFaster) {
  struct Case {
    int streams, prefix;
    double together, apart;  // measured
  };
  for (const Case& c :
       {Case{8, 64, 14.4, 12.1}, Case{16, 16, 18.2, 12.0}, Case{16, 128, 18.3, 13.5},
        Case{32, 64, 20.2, 14.3}, Case{16, 1024, 17.7, 29.5}, Case{32, 1024, 19.4, 33.8},
        Case{32, 2048, 31.4, 49.8}, Case{64, 512, 19.8, 33.9}}) {
    const bool apart =
        Chosen(SharedBy(c.streams, c.prefix, 32), H200())[0] == ItemSharing::kPerStream;
    EXPECT_EQ(apart, c.apart < c.together) << c.streams << " streams, " << c.prefix << " keys";
  }
}

TEST(ReadingChoice, ApartIsAPlanOfItsOwn) {
  const PlanForest forest = SharedBy(16, 64, 32);
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), H200());
  PlanOptions together = H200();
  together.sharing = ItemSharing::kTree;
  const AttentionPlan tree = BuildPlan(forest.nodes(), forest.positions(), together);
  EXPECT_EQ(plan.items.size(), 32u);
  EXPECT_EQ(tree.items.size(), 17u);
  CheckPlan(plan, forest.nodes(), forest.positions());
  EXPECT_LT(SecondsOf(together.costs, CountReading(together.costs.form, plan)),
            SecondsOf(together.costs, CountReading(together.costs.form, tree)));
}

// The long document is read together, the instruction that few others share apart.
TEST(ReadingChoice, NodesAreChosenOneByOne) {
  PlanOptions options{.sharing = ItemSharing::kAuto};
  options.costs[CostTerm::kFewKey] = 1e-9;
  options.costs[CostTerm::kManyUnit] = 1e-6;
  options.costs[CostTerm::kManyKey] = 1e-9;
  PlanForest forest;
  const int instruction = forest.Add({.length = 40});
  const int document = forest.Add({.parent = instruction, .length = 900});
  for (int i = 0; i < 4; ++i) forest.Add({.parent = document, .length = 9, .own_rows = 1});
  EXPECT_THAT(
      Chosen(forest, options),
      ::testing::ElementsAre(ItemSharing::kPerStream, ItemSharing::kTree, ItemSharing::kTree,
                             ItemSharing::kTree, ItemSharing::kTree, ItemSharing::kTree));
}

TEST(ReadingChoice, WithoutCostsOrAClearGainNodesAreReadTogether) {
  const PlanForest forest = SharedBy(2, 100, 1);
  const auto reads_apart = [&](double few_key, double many_key) {
    PlanOptions options{.sharing = ItemSharing::kAuto};
    options.costs[CostTerm::kFewKey] = few_key;
    options.costs[CostTerm::kManyKey] = many_key;
    return Chosen(forest, options)[0] == ItemSharing::kPerStream;
  };
  EXPECT_FALSE(reads_apart(0.0, 0.0));
  EXPECT_FALSE(reads_apart(1e-9, 1.9e-9));
  EXPECT_FALSE(reads_apart(1e-9, 2.05e-9));  // less than 5 % of all that is read
  EXPECT_TRUE(reads_apart(1e-9, 2.3e-9));
}

// A stream alone: 2 k keys are read by more workers in cuts; of 8 k, 64 partials would take longer
// to merge than groups take to read.
TEST(ReadingChoice, FewItemsAreSplitWhereThatIsFaster) {
  const auto items = [](int prefix, PlanOptions options) {
    const PlanForest forest = SharedBy(1, prefix, 20);
    return BuildPlan(forest.nodes(), forest.positions(), options).items.size();
  };
  EXPECT_EQ(items(2048, H200()), 17u);
  EXPECT_EQ(items(8192, H200()), 9u);
  PlanOptions unknown = H200();
  unknown.costs = {};
  EXPECT_EQ(items(8192, unknown), 65u);
}

TEST(ReadingChoice, PredictionsAreThoseOfThePlansThatAreBuilt) {
  for (const int streams : {2, 8, 16, 40}) {
    for (const int prefix : {10, 300, 1024, 2048, 9000}) {
      for (const int min_items : {1, 17}) {
        const PlanForest forest = SharedBy(streams, prefix, 20);
        PlanOptions options = H200();
        options.min_items = min_items;
        StepReaders readers;
        FindReaders(forest.nodes(), forest.rows(), readers);
        const ReadingSeconds seconds =
            SecondsOfStep({forest.nodes(), forest.positions(), readers}, options);
        const auto of_plan = [&](ItemSharing sharing) {
          options.sharing = sharing;
          const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), options);
          return SecondsOf(options.costs, CountReading(options.costs.form, plan));
        };
        SCOPED_TRACE(::testing::Message() << streams << " " << prefix << " " << min_items);
        const double together = of_plan(ItemSharing::kTree);
        const double apart = of_plan(ItemSharing::kPerStream);
        EXPECT_NEAR(seconds.together, together, 1e-9 * together);
        EXPECT_NEAR(seconds.apart, apart, 1e-9 * apart);
      }
    }
  }
}

}  // namespace

}  // namespace banyan
