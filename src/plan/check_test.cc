// CheckPlan must see every kind of broken plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plan/build.h"
#include "support/plan_forest.h"

namespace banyan {
namespace {

PlanForest SomeForest() {
  PlanForest forest;
  const int p = forest.Add({.length = 2500});
  const int c = forest.Add({.parent = p, .length = 3 * kCutKeys, .stack = 0});
  const int d =
      forest.Add({.parent = c, .length = 900, .own_rows = 5, .stack = 0, .continues_parent = true});
  forest.Add({.parent = d, .length = 40, .own_rows = 1, .stack = 0});
  forest.Add({.parent = c, .length = 1, .own_rows = 1, .stack = 0});
  forest.Add({.length = 17, .own_rows = 2});
  return forest;
}

// A merge list of one row with several entries.
struct RowMerges {
  MergeEntry& entry(int i) { return plan.merges[plan.merge_begin[row] + i]; }
  AttentionPlan& plan;
  int row = 0;
};

const std::vector<std::pair<std::string, std::function<void(AttentionPlan&)>>>& Mutations() {
  static const std::vector<std::pair<std::string, std::function<void(AttentionPlan&)>>> all = {
      {"first item dropped", [](auto& plan) { plan.items.erase(plan.items.begin()); }},
      {"last item dropped", [](auto& plan) { plan.items.pop_back(); }},
      {"item twice", [](auto& plan) { plan.items.push_back(plan.items.back()); }},
      {"items unsorted", [](auto& plan) { std::reverse(plan.items.begin(), plan.items.end()); }},
      {"keys shifted",
       [](auto& plan) {
         plan.items[0].key_begin += kCutKeys;
         plan.items[0].key_end += kCutKeys;
       }},
      {"keys begin inside a cut", [](auto& plan) { plan.items[0].key_begin += 1; }},
      {"a key left out", [](auto& plan) { plan.items.back().key_end -= 1; }},
      {"keys beyond the group", [](auto& plan) { plan.items[0].key_end += 1; }},
      {"keys beyond the span", [](auto& plan) { plan.items.back().key_end = 1 << 20; }},
      {"negative key", [](auto& plan) { plan.items[0].key_begin = -kCutKeys; }},
      {"another span", [](auto& plan) { plan.items[0].span = 5; }},
      {"no such span", [](auto& plan) { plan.items[0].span = 6; }},
      {"a reader left out", [](auto& plan) { plan.items[0].reader_end -= 1; }},
      {"a reader too many", [](auto& plan) { plan.items[0].reader_end += 1; }},
      {"a reader without the node",
       [](auto& plan) {
         ++plan.items[0].row_end;
         ++plan.items[0].reader_begin;
         ++plan.items[0].reader_end;
       }},
      {"rows out of range", [](auto& plan) { plan.items[0].row_end = 1000; }},
      {"partials of another item",
       [](auto& plan) { plan.items[0].first_partial = plan.items[1].first_partial; }},
      {"partials exchanged",
       [](auto& plan) { std::swap(plan.items[0].first_partial, plan.items[1].first_partial); }},
      {"partials out of range", [](auto& plan) { plan.items[0].first_partial = plan.partials; }},
      {"one partial more", [](auto& plan) { ++plan.partials; }},
      {"one partial less", [](auto& plan) { --plan.partials; }},
      {"merges exchanged",
       [](auto& plan) {
         RowMerges row{plan};
         std::swap(row.entry(0), row.entry(1));
       }},
      {"a merge twice",
       [](auto& plan) {
         RowMerges row{plan};
         row.entry(1) = row.entry(0);
       }},
      {"a merge of another row",
       [](auto& plan) {
         std::swap(RowMerges{plan, 0}.entry(0), RowMerges{plan, 1}.entry(0));
       }},
      {"no such partial", [](auto& plan) { RowMerges{plan}.entry(0).partial = plan.partials; }},
      {"group not opened", [](auto& plan) { RowMerges{plan}.entry(1).opens = Opening::kCut; }},
      {"group opened within one",
       [](auto& plan) {
         for (MergeEntry& entry : plan.merges) {
           if (entry.opens == Opening::kCut) entry.opens = Opening::kGroup;
         }
       }},
      {"chunk not opened", [](auto& plan) { RowMerges{plan}.entry(0).opens = Opening::kGroup; }},
      {"chunk opened within one",
       [](auto& plan) { RowMerges{plan}.entry(1).opens = Opening::kChunk; }},
      {"the rest opened without a context",
       [](auto& plan) { RowMerges{plan}.entry(0).opens = Opening::kRest; }},
      {"a context with rows of its own", [](auto& plan) { plan.context.spans = 3; }},
      {"a context that is all", [](auto& plan) { plan.context.spans = 7; }},
      {"merge lists overlap", [](auto& plan) { plan.merge_begin[1] += 1; }},
      {"merge offsets missing", [](auto& plan) { plan.merge_begin.pop_back(); }},
      {"merge list of a row dropped", [](auto& plan) { plan.merge_begin[1] = 0; }},
      {"a merge too many", [](auto& plan) { plan.merges.push_back({}); }},
      {"another page", [](auto& plan) { std::swap(plan.pages[0], plan.pages[1]); }},
      {"a page too many", [](auto& plan) { plan.pages.push_back(0); }},
      {"other positions", [](auto& plan) { plan.spans[1].first_position += 1; }},
      {"another phase", [](auto& plan) { plan.spans[2].chunk_phase = 0; }},
      {"a span too many", [](auto& plan) { plan.spans.push_back({}); }},
  };
  return all;
}

class CheckPlanDeathTest : public testing::TestWithParam<ItemSharing> {};

TEST_P(CheckPlanDeathTest, SeesEveryMutation) {
  const PlanForest forest = SomeForest();
  const AttentionPlan plan =
      BuildPlan(forest.nodes(), forest.positions(), {.sharing = GetParam(), .max_item_rows = 4});
  CheckPlan(plan, forest.nodes(), forest.positions());
  for (const auto& [name, mutate] : Mutations()) {
    SCOPED_TRACE(name);
    AttentionPlan broken = plan;
    mutate(broken);
    EXPECT_DEATH(CheckPlan(broken, forest.nodes(), forest.positions()), "check.cc.*CHECK failed");
  }
}

INSTANTIATE_TEST_SUITE_P(AllSharing, CheckPlanDeathTest,
                         testing::Values(ItemSharing::kPerStream, ItemSharing::kTree,
                                         ItemSharing::kStacked));

TEST(CheckPlanDeathTest, TheRestAfterAParallelContextIsOpened) {
  PlanForest forest;
  const int document = forest.Add({.length = 200});
  const int system = forest.Add({.parent = document, .length = 20});
  forest.Add({.parent = system, .length = 9, .own_rows = 2});
  const AttentionPlan plan =
      BuildPlan(forest.nodes(), forest.positions(), {.context = {1, 0.5f, 1.0f}});
  CheckPlan(plan, forest.nodes(), forest.positions());
  AttentionPlan broken = plan;
  RowMerges{broken}.entry(1).opens = Opening::kChunk;
  EXPECT_DEATH(CheckPlan(broken, forest.nodes(), forest.positions()), "kRest");
  broken = plan;
  broken.context.spans = 2;
  EXPECT_DEATH(CheckPlan(broken, forest.nodes(), forest.positions()), "kRest");
}

TEST(CheckPlanDeathTest, AGroupThatGoesOnAfterAnItemOfSeveral) {
  const auto forest = [](bool continues_parent) {
    PlanForest forest;
    const int first = forest.Add({.length = 2 * kGroupKeys + 3 * kCutKeys});
    forest.Add(
        {.parent = first, .length = 100, .own_rows = 2, .continues_parent = continues_parent});
    return forest;
  };
  const PlanForest apart = forest(false), one = forest(true);
  AttentionPlan plan = BuildPlan(apart.nodes(), apart.positions(), {.joining = {.least_rows = 1}});
  ASSERT_EQ(plan.items.size(), 2u);
  CheckPlan(plan, apart.nodes(), apart.positions());
  plan.spans[1].chunk_phase = one.nodes()[1].chunk_phase;
  for (int row = 0; row < 2; ++row) RowMerges{plan, row}.entry(1).opens = Opening::kCut;
  EXPECT_DEATH(CheckPlan(plan, one.nodes(), one.positions()), "after_several_groups");
}

TEST(CheckPlanDeathTest, RowsOfANodeOutOfOrder) {
  const PlanForest forest = SomeForest();
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
  std::vector<std::int32_t> positions = forest.positions();
  std::swap(positions[0], positions[1]);
  EXPECT_DEATH(CheckPlan(plan, forest.nodes(), positions), "CHECK failed");
}

}  // namespace
}  // namespace banyan
