// Small trees with the exact plans they must give. Property tests: plan_property_test.cc.
#include "plan/build.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/cost.h"
#include "plan/sharing.h"
#include "support/plan_forest.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AttentionPlan Plan(const PlanForest& forest, const PlanOptions& options) {
  AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), options);
  CheckPlan(plan, forest.nodes(), forest.positions());
  return plan;
}

// "rows 0-3 x 1[0-200]": rows [0, 3) meet keys [0, 200) of span 1; readers only where they differ.
std::vector<std::string> Items(const AttentionPlan& plan) {
  std::vector<std::string> lines;
  for (const WorkItem& item : plan.items) {
    std::string line = fmt::format("rows {}-{} x {}[{}-{}]", item.row_begin, item.row_end,
                                   item.span, item.key_begin, item.key_end);
    if (item.reader_begin != item.row_begin || item.reader_end != item.row_end) {
      line += fmt::format(" readers {}-{}", item.reader_begin, item.reader_end);
    }
    lines.push_back(line);
  }
  return lines;
}

// "||0[0-1024] 0[1024-1152] |0[2048-2176]": what the row merges, as span[keys); a bar where a group
// opens, two where a chunk does, three where the rest after a parallel context does.
std::string Merges(const AttentionPlan& plan, int row) {
  std::string line;
  for (int i = plan.merge_begin[row]; i < plan.merge_begin[row + 1]; ++i) {
    const MergeEntry& entry = plan.merges[i];
    for (const WorkItem& item : plan.items) {
      if (item.first_partial + (row - item.reader_begin) != entry.partial ||
          row < item.reader_begin || row >= item.reader_end) {
        continue;
      }
      const std::string bars(static_cast<std::size_t>(entry.opens), '|');
      line += fmt::format("{}{}{}[{}-{}]", line.empty() ? "" : " ", bars, item.span, item.key_begin,
                          item.key_end);
    }
  }
  return line;
}

// Instruction, two contexts, three questions that decode one token each.
PlanForest TwoContexts() {
  PlanForest forest;
  const int p = forest.Add({.length = 1500});
  const int c1 = forest.Add({.parent = p, .length = 200, .stack = 0});
  forest.Add({.parent = c1, .length = 5, .own_rows = 1, .stack = 0});
  forest.Add({.parent = c1, .length = 130, .own_rows = 1, .stack = 0});
  const int c2 = forest.Add({.parent = p, .length = 100, .stack = 0});
  forest.Add({.parent = c2, .length = 1, .own_rows = 1, .stack = 0});
  return forest;
}

// Two documents, the system prompt, two questions; and a stream that does not read them.
TEST(BuildPlan, TheRestOfAPathOpensAfterItsParallelContext) {
  PlanForest forest;
  const int d1 = forest.Add({.length = 200});
  const int d2 = forest.Add({.parent = d1, .length = 40});
  const int system = forest.Add({.parent = d2, .length = 1100});
  forest.Add({.parent = system, .length = 30, .own_rows = 1});
  forest.Add({.parent = system, .length = 3, .own_rows = 1});
  forest.Add({.length = 20, .own_rows = 1});
  const ParallelContext context{2, 0.5f, 0.8f};
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kTree, .context = context});
  EXPECT_EQ(plan.context.spans, 2);
  EXPECT_EQ(Merges(plan, 0), "||0[0-200] ||1[0-40] |||2[0-1024] |2[1024-1100] ||3[0-30]");
  EXPECT_EQ(Merges(plan, 1), "||0[0-200] ||1[0-40] |||2[0-1024] |2[1024-1100] ||4[0-3]");
  EXPECT_EQ(Merges(plan, 2), "||5[0-20]");
  // A plan that is built again forgets it.
  EXPECT_EQ(Merges(Plan(forest, {}), 0),
            "||0[0-200] ||1[0-40] ||2[0-1024] |2[1024-1100] ||3[0-30]");
}

TEST(BuildPlan, TreeReadsEachNodeOnceForAllBelowIt) {
  const PlanForest forest = TwoContexts();
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kTree});
  EXPECT_THAT(Items(plan),
              ElementsAre("rows 0-3 x 0[0-1024]", "rows 0-3 x 0[1024-1500]", "rows 0-2 x 1[0-200]",
                          "rows 1-2 x 3[0-130]", "rows 2-3 x 4[0-100]", "rows 0-1 x 2[0-5]",
                          "rows 2-3 x 5[0-1]"));
  EXPECT_EQ(Merges(plan, 0), "||0[0-1024] |0[1024-1500] ||1[0-200] ||2[0-5]");
  EXPECT_EQ(Merges(plan, 1), "||0[0-1024] |0[1024-1500] ||1[0-200] ||3[0-130]");
  EXPECT_EQ(Merges(plan, 2), "||0[0-1024] |0[1024-1500] ||4[0-100] ||5[0-1]");
  EXPECT_EQ(plan.partials, 12);
}

TEST(BuildPlan, PerStreamReadsEachPathAlone) {
  const PlanForest forest = TwoContexts();
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kPerStream});
  EXPECT_THAT(
      Items(plan),
      ElementsAre("rows 0-1 x 0[0-1024]", "rows 1-2 x 0[0-1024]", "rows 2-3 x 0[0-1024]",
                  "rows 0-1 x 0[1024-1500]", "rows 1-2 x 0[1024-1500]", "rows 2-3 x 0[1024-1500]",
                  "rows 0-1 x 1[0-200]", "rows 1-2 x 1[0-200]", "rows 1-2 x 3[0-130]",
                  "rows 2-3 x 4[0-100]", "rows 0-1 x 2[0-5]", "rows 2-3 x 5[0-1]"));
  EXPECT_EQ(Merges(plan, 1), "||0[0-1024] |0[1024-1500] ||1[0-200] ||3[0-130]");
}

TEST(BuildPlan, KnowsWhetherItemsOfFewRowsShareTheirKeys) {
  const PlanForest forest = TwoContexts();
  const auto reads_again = [&](const PlanOptions& options) {
    return Plan(forest, options).reads_again;
  };
  const GroupJoining joining{.least_rows = 2};
  EXPECT_FALSE(reads_again({.sharing = ItemSharing::kTree, .joining = joining}));
  EXPECT_TRUE(reads_again({.sharing = ItemSharing::kPerStream, .joining = joining}));
  EXPECT_TRUE(reads_again({.sharing = ItemSharing::kTree, .share_levels = 1, .joining = joining}));
  // Three rows in blocks of two: the last has only one.
  EXPECT_TRUE(reads_again({.sharing = ItemSharing::kTree, .max_item_rows = 2, .joining = joining}));
  // No rows are few.
  EXPECT_FALSE(reads_again({.sharing = ItemSharing::kPerStream, .joining = {.least_rows = 1}}));
}

TEST(BuildPlan, ShareLevelsLimitTheDepthThatIsShared) {
  const PlanForest forest = TwoContexts();
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kTree, .share_levels = 1});
  EXPECT_THAT(Items(plan),
              ElementsAre("rows 0-3 x 0[0-1024]", "rows 0-3 x 0[1024-1500]", "rows 0-1 x 1[0-200]",
                          "rows 1-2 x 1[0-200]", "rows 1-2 x 3[0-130]", "rows 2-3 x 4[0-100]",
                          "rows 0-1 x 2[0-5]", "rows 2-3 x 5[0-1]"));
}

TEST(BuildPlan, ContinuedSegmentIsOneLevel) {
  PlanForest forest;
  const int first = forest.Add({.length = 1024});
  const int second = forest.Add({.parent = first, .length = 100, .continues_parent = true});
  forest.Add({.parent = second, .length = 1, .own_rows = 1});
  forest.Add({.parent = second, .length = 1, .own_rows = 1});
  EXPECT_THAT(Items(Plan(forest, {.sharing = ItemSharing::kTree, .share_levels = 1})),
              ElementsAre("rows 0-2 x 0[0-1024]", "rows 0-2 x 1[0-100]", "rows 0-1 x 2[0-1]",
                          "rows 1-2 x 3[0-1]"));
}

TEST(BuildPlan, StackedRowsMeetAllKeysOfTheirStack) {
  PlanForest forest;
  const int p = forest.Add({.length = 40});
  const int c1 = forest.Add({.parent = p, .length = 30, .stack = 7});
  forest.Add({.parent = c1, .length = 20, .own_rows = 1, .stack = 7});
  forest.Add({.parent = c1, .length = 19, .own_rows = 1, .stack = 7});
  const int c2 = forest.Add({.parent = p, .length = 28, .stack = 7});
  forest.Add({.parent = c2, .length = 27, .own_rows = 1, .stack = 7});
  const int c3 = forest.Add({.parent = p, .length = 60, .stack = 3});
  forest.Add({.parent = c3, .length = 17, .own_rows = 1, .stack = 3});
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kStacked});
  EXPECT_THAT(
      Items(plan),
      ElementsAre("rows 0-4 x 0[0-40]",  // the instruction is shared by all stacks
                  "rows 0-3 x 1[0-30] readers 0-2", "rows 0-3 x 4[0-28] readers 2-3",
                  "rows 0-3 x 5[0-27] readers 2-3", "rows 0-3 x 2[0-20] readers 0-1",
                  "rows 3-4 x 6[0-60]", "rows 0-3 x 3[0-19] readers 1-2", "rows 3-4 x 7[0-17]"));
  EXPECT_EQ(Merges(plan, 1), "||0[0-40] ||1[0-30] ||3[0-19]");
  EXPECT_EQ(plan.partials, 12);
}

TEST(BuildPlan, StackedBlocksWithoutReadersAreComputedAndThrownAway) {
  PlanForest forest;
  const int c = forest.Add({.length = 10, .stack = 0});
  for (int i = 0; i < 3; ++i) {
    forest.Add({.parent = c, .length = 4, .own_rows = 1, .stack = 0});
  }
  const AttentionPlan plan = Plan(forest, {.sharing = ItemSharing::kStacked, .max_item_rows = 2});
  EXPECT_THAT(Items(plan),
              ElementsAre("rows 0-2 x 0[0-10]", "rows 2-3 x 0[0-10]",
                          "rows 0-2 x 1[0-4] readers 0-1", "rows 0-2 x 2[0-4] readers 1-2",
                          "rows 0-2 x 3[0-4] readers 2-2", "rows 2-3 x 1[0-4] readers 2-2",
                          "rows 2-3 x 2[0-4] readers 2-2", "rows 2-3 x 3[0-4]"));
}

TEST(BuildPlan, StackReachesToItsLastReader) {
  PlanForest forest;
  const int c = forest.Add({.length = 10, .stack = 0});
  forest.Add({.parent = c, .length = 4, .own_rows = 1, .stack = 0});
  forest.Add({.parent = c, .length = 4, .own_rows = 1});  // in no stack
  EXPECT_THAT(
      Items(Plan(forest, {.sharing = ItemSharing::kStacked})),
      ElementsAre("rows 0-2 x 0[0-10]", "rows 0-2 x 1[0-4] readers 0-1", "rows 1-2 x 2[0-4]"));
}

TEST(BuildPlan, PrefillSkipsKeysAndRowsThatSeeNothing) {
  PlanForest forest;
  forest.Add({.length = 1100, .own_rows = 100});  // positions 1000 to 1099
  const AttentionPlan plan = Plan(forest, {.max_item_rows = 64});
  EXPECT_THAT(Items(plan), ElementsAre("rows 0-64 x 0[0-1024]", "rows 64-100 x 0[0-1024]",
                                       "rows 64-100 x 0[1024-1100]", "rows 24-64 x 0[1024-1064]"));
  EXPECT_EQ(Merges(plan, 23), "||0[0-1024]");
  EXPECT_EQ(Merges(plan, 24), "||0[0-1024] |0[1024-1064]");
}

TEST(BuildPlan, PrefillOfANodeAndOfItsChildrenInOneStep) {
  PlanForest forest;
  const int c = forest.Add({.length = 3, .own_rows = 3});
  forest.Add({.parent = c, .length = 2, .own_rows = 2});
  forest.Add({.parent = c, .length = 1, .own_rows = 1});
  const AttentionPlan plan = Plan(forest, {});
  EXPECT_THAT(Items(plan),
              ElementsAre("rows 0-6 x 0[0-3]", "rows 3-5 x 1[0-2]", "rows 5-6 x 2[0-1]"));
  EXPECT_EQ(Merges(plan, 0), "||0[0-3]");
  EXPECT_EQ(Merges(plan, 5), "||0[0-3] ||2[0-1]");
}

TEST(BuildPlan, ContinuedGroupIsReadCutByCutUpToTheNextGroup) {
  PlanForest forest;
  const int first = forest.Add({.length = 3 * kCutKeys});
  forest.Add({.parent = first, .length = 1000, .own_rows = 1, .continues_parent = true});
  const AttentionPlan plan = Plan(forest, {});
  EXPECT_EQ(Merges(plan, 0),
            "||0[0-384] 1[0-128] 1[128-256] 1[256-384] 1[384-512] 1[512-640] |1[640-1000]");
}

TEST(BuildPlan, NewSegmentAndContinuationAtAGroupBothOpenOne) {
  PlanForest forest;
  const int first = forest.Add({.length = kGroupKeys});
  const int second = forest.Add({.parent = first, .length = 128, .continues_parent = true});
  const int third = forest.Add({.parent = second, .length = 10, .continues_parent = true});
  forest.Add({.parent = third, .length = 200, .own_rows = 1});
  EXPECT_EQ(Merges(Plan(forest, {}), 0), "||0[0-1024] |1[0-128] 2[0-10] ||3[0-200]");
}

TEST(BuildPlan, FewItemsAreSplitIntoCuts) {
  PlanForest forest;
  forest.Add({.length = 1200, .own_rows = 1});
  const AttentionPlan plan = Plan(forest, {.min_items = 3});
  EXPECT_EQ(Merges(plan, 0),
            "||0[0-128] 0[128-256] 0[256-384] 0[384-512] 0[512-640] 0[640-768] 0[768-896] "
            "0[896-1024] |0[1024-1152] 0[1152-1200]");
}

TEST(BuildPlan, OnlyItemsThatHoldUpTheOthersAreSplit) {
  PlanForest forest;
  const int p = forest.Add({.length = 300});
  for (int i = 0; i < 6; ++i) forest.Add({.parent = p, .length = 140, .own_rows = 1});
  // 1800 of 2640 pairs are in one item.
  EXPECT_THAT(Items(Plan(forest, {.min_items = 7})),
              ElementsAre("rows 0-6 x 0[0-128]", "rows 0-6 x 0[128-256]", "rows 0-6 x 0[256-300]",
                          "rows 0-1 x 1[0-140]", "rows 1-2 x 2[0-140]", "rows 2-3 x 3[0-140]",
                          "rows 3-4 x 4[0-140]", "rows 4-5 x 5[0-140]", "rows 5-6 x 6[0-140]"));
}

// Everything that can be joined.
PlanOptions Joined() { return {.max_item_rows = 4, .joining = {.least_rows = 2}}; }

TEST(BuildPlan, GroupsOfAChunkAreJoinedFromItsStart) {
  PlanForest forest;
  const int p = forest.Add({.length = kChunkKeys + 2 * kGroupKeys + 100});
  for (int i = 0; i < 2; ++i) forest.Add({.parent = p, .length = 1500, .own_rows = 1});
  const AttentionPlan plan = Plan(forest, Joined());
  EXPECT_EQ(Merges(plan, 0), "||0[0-4096] ||0[4096-6244] ||1[0-1024] |1[1024-1500]");
  EXPECT_THAT(Items(plan), ElementsAre("rows 0-2 x 0[0-4096]", "rows 0-2 x 0[4096-6244]",
                                       "rows 0-1 x 1[0-1024]", "rows 1-2 x 2[0-1024]",
                                       "rows 0-1 x 1[1024-1500]", "rows 1-2 x 2[1024-1500]"));
}

TEST(BuildPlan, AGroupThatGoesOnInAnotherSpanIsNotJoined) {
  PlanForest forest;
  const int first = forest.Add({.length = 2 * kGroupKeys + 3 * kCutKeys});
  const int second = forest.Add({.parent = first, .length = 1000, .continues_parent = true});
  for (int i = 0; i < 2; ++i) forest.Add({.parent = second, .length = 1, .own_rows = 1});
  EXPECT_EQ(Merges(Plan(forest, Joined()), 1),
            "||0[0-2048] |0[2048-2432] 1[0-128] 1[128-256] 1[256-384] 1[384-512] 1[512-640] "
            "|1[640-1000] ||3[0-1]");
}

TEST(BuildPlan, RowsOfAPromptShareAJoinedItem) {
  PlanForest forest;
  forest.Add({.length = 2100, .own_rows = 53});  // positions 2047 to 2099
  const AttentionPlan plan = Plan(forest, {.joining = {.least_rows = 2}});
  EXPECT_THAT(Items(plan), ElementsAre("rows 0-53 x 0[0-2100]"));
}

TEST(BuildPlan, JoiningLeavesWorkersBusy) {
  PlanForest forest;
  const int p = forest.Add({.length = 2 * kChunkKeys});
  for (int i = 0; i < 12; ++i) forest.Add({.parent = p, .length = 1, .own_rows = 1});
  PlanOptions options = Joined();  // three blocks of rows, two chunks each
  options.joining.kv_heads = 2;
  options.joining.times = {.cut = 1.0f, .item = 1.0f, .page = 0.0f};
  const auto items_of_a_chunk = [&](int workers) {
    options.joining.workers = workers;
    int count = 0;
    for (const WorkItem& item : Plan(forest, options).items) {
      count += item.key_end - item.key_begin == kChunkKeys ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(items_of_a_chunk(6), 6);   // two rounds
  EXPECT_EQ(items_of_a_chunk(8), 4);   // one; the rest is better shared out
  EXPECT_EQ(items_of_a_chunk(12), 6);  // one
  EXPECT_EQ(items_of_a_chunk(16), 0);
}

TEST(BuildPlan, WorkersAreLeftToItemsOfFewRows) {
  PlanForest forest;
  const int p = forest.Add({.length = 2 * kGroupKeys});
  for (int i = 0; i < 12; ++i) forest.Add({.parent = p, .length = 160, .own_rows = 1});
  PlanOptions options = Joined();  // three blocks of rows, two groups each; twelve items of one row
  options.joining.workers = 6;
  options.joining.times = {.cut = 1.0f, .item = 1.0f, .page = 0.0f};
  AttentionPlan plan = Plan(forest, options);
  EXPECT_EQ(plan.many_row_workers, 6);  // a group each
  EXPECT_EQ(plan.items.size(), 18u);
  // 120 pages: 9 + 6 after the groups' 9, or 9 + 12 for three workers beside the others' 17.
  options.joining.times.page = 0.3f;
  options.joining.times.start = 9.0f;
  plan = Plan(forest, options);
  EXPECT_EQ(plan.many_row_workers, 3);
  EXPECT_EQ(plan.items.size(), 15u);
}

TEST(BuildPlan, AutoSharesWhereSharingCostsLess) {
  const PlanForest forest = TwoContexts();
  const PlanOptions shared{.sharing = ItemSharing::kTree};
  PlanOptions options{.sharing = ItemSharing::kAuto};
  EXPECT_EQ(Items(Plan(forest, options)), Items(Plan(forest, shared)));

  // An item of several rows costs as much as 500 keys: the second node's 200 keys for two rows are
  // not worth it.
  options.costs[CostTerm::kFewKey] = 10;
  options.costs[CostTerm::kManyUnit] = 5000;
  options.costs[CostTerm::kManyKey] = 10;
  EXPECT_THAT(Items(Plan(forest, options)),
              ElementsAre("rows 0-3 x 0[0-1024]", "rows 0-3 x 0[1024-1500]", "rows 0-1 x 1[0-200]",
                          "rows 1-2 x 1[0-200]", "rows 1-2 x 3[0-130]", "rows 2-3 x 4[0-100]",
                          "rows 0-1 x 2[0-5]", "rows 2-3 x 5[0-1]"));
}

// So that choosing costs one stream nothing.
TEST(BuildPlan, OneStreamHasOnePlan) {
  for (const int prefix : {100, 1024, 4096, 4500}) {
    PlanForest forest;
    const int above = forest.Add({.length = prefix, .stack = 0});
    forest.Add({.parent = above, .length = 7, .own_rows = 1, .stack = 0});
    for (const int workers : {1, 3, 6, 22}) {
      PlanOptions options{.sharing = ItemSharing::kTree, .min_items = workers};
      const AttentionPlan tree = Plan(forest, options);
      for (const ItemSharing sharing : {ItemSharing::kAuto, ItemSharing::kPerStream}) {
        options.sharing = sharing;
        const AttentionPlan plan = Plan(forest, options);
        EXPECT_EQ(Items(plan), Items(tree)) << prefix << " tokens, " << workers << " items";
        EXPECT_EQ(Merges(plan, 0), Merges(tree, 0));
      }
    }
  }
}

// A prompt in blocks of 32 rows on 132 workers, 8 KV heads: 16 blocks of up to four cuts are one
// round of tasks, their 40 cuts would be three; but the 12 cuts of 8 blocks are one round of
// shorter tasks.
TEST(BuildPlan, ManyRowsAreSplitIntoCutsOnlyWhereThatIsSooner) {
  const GroupJoining joining{.least_rows = 5,
                             .kv_heads = 8,
                             .workers = 132,
                             .times = {.cut = 2.0f, .item = 5.0f, .page = 0.15f}};
  const auto items = [&](int rows, const GroupJoining& times) {
    PlanForest forest;
    forest.Add({.length = rows, .own_rows = rows});
    return Plan(forest, {.max_item_rows = 32, .min_items = 17, .joining = times}).items.size();
  };
  EXPECT_EQ(items(512, joining), 16u);
  EXPECT_EQ(items(512, {}), 40u);
  EXPECT_EQ(items(544, joining), 17u);
  EXPECT_EQ(items(256, joining), 12u);
  EXPECT_EQ(items(256, {}), 12u);
}

// How encoders see a text from both sides (model/encoder_forward.cc).
TEST(BuildPlan, RowsThatStandBehindAllKeysOfTheirTextSeeEveryOne) {
  std::vector<PlanNode> nodes;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> pages(200);
  std::int64_t pairs = 0;
  for (const std::int32_t length : {1, 300, 16, 129, 1100}) {
    PlanNode& node = nodes.emplace_back();
    node.row_begin = static_cast<std::int32_t>(positions.size());
    node.row_end = node.row_begin + length;
    node.length = length;
    node.pages = std::span(pages).first(static_cast<size_t>(length + 15) / 16);
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(length - 1 + i);
    pairs += std::int64_t{length} * length;
  }
  const AttentionPlan plan = BuildPlan(nodes, positions, {});
  CheckPlan(plan, nodes, positions);
  const PlanStatistics count = CountPlan(plan, positions);
  EXPECT_EQ(count.pairs_visible, pairs);
  EXPECT_EQ(count.pairs_computed, count.pairs_visible);
}

TEST(BuildPlan, NothingToDo) {
  PlanForest forest;
  AttentionPlan plan = Plan(forest, {});
  EXPECT_THAT(plan.items, IsEmpty());
  EXPECT_THAT(plan.merge_begin, ElementsAre(0));

  const int root = forest.Add({.length = 100});  // resident, read by nobody
  const int empty = forest.Add({.parent = root, .length = 0});
  plan = Plan(forest, {});
  EXPECT_THAT(plan.items, IsEmpty());

  forest.Add({.parent = empty, .length = 1, .own_rows = 1});
  EXPECT_EQ(Merges(Plan(forest, {}), 0), "||0[0-100] ||2[0-1]");
}

TEST(BuildPlan, RowThatSeesNothingMergesNothing) {
  PlanForest forest;
  forest.Add({.length = 10, .own_rows = 2});
  std::vector<PlanNode> nodes = forest.nodes();
  nodes[0].first_position = 9;  // rows stand at 8 and 9
  const AttentionPlan plan = BuildPlan(nodes, forest.positions(), {});
  CheckPlan(plan, nodes, forest.positions());
  EXPECT_THAT(Items(plan), ElementsAre("rows 1-2 x 0[0-1]"));
}

TEST(BuildPlan, PlanMemoryIsUsedAgain) {
  const PlanForest large = TwoContexts();
  PlanScratch scratch;
  AttentionPlan plan;
  BuildPlan(large.nodes(), large.positions(), {}, scratch, plan);
  PlanForest small;
  small.Add({.length = 17, .own_rows = 1});
  BuildPlan(small.nodes(), small.positions(), {}, scratch, plan);
  CheckPlan(plan, small.nodes(), small.positions());
  EXPECT_THAT(Items(plan), ElementsAre("rows 0-1 x 0[0-17]"));
  EXPECT_THAT(plan.pages, ElementsAre(1, 0));
}

TEST(BuildPlanDeathTest, NodesOutOfOrder) {
  const PlanForest forest = TwoContexts();
  const auto build = [&](auto change) {
    std::vector<PlanNode> nodes = forest.nodes();
    change(nodes);
    BuildPlan(nodes, forest.positions(), {});
  };
  EXPECT_DEATH(build([](auto& nodes) { std::swap(nodes[2], nodes[5]); }), "CHECK");
  EXPECT_DEATH(build([](auto& nodes) { nodes[5].parent = 3; }), "CHECK");
  EXPECT_DEATH(build([](auto& nodes) { nodes[5].row_end = 4; }), "CHECK");
  EXPECT_DEATH(build([](auto& nodes) { nodes.pop_back(); }), "CHECK");
  EXPECT_DEATH(build([](auto& nodes) { nodes[2].length = 17; }), "CHECK");
  EXPECT_DEATH(build([](auto& nodes) { nodes[2].chunk_phase = 1; }), "CHECK");
}

}  // namespace
}  // namespace banyan
