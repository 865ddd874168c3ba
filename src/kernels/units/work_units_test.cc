#include <gtest/gtest.h>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/units/work_units.h"
#include "plan/build.h"
#include "support/plan_forest.h"

namespace banyan {

namespace {

constexpr UnitForm kBothForms[] = {UnitForm::kBlocks, UnitForm::kWideAndNarrow};

std::int32_t KeysOf(const WorkUnit& unit) { return unit.key_end - unit.key_begin; }

// A prefix that so many streams of one row each read.
void AddSharedPrefix(PlanForest& forest, int length, int streams) {
  const int prefix = forest.Add({.length = length});
  for (int i = 0; i < streams; ++i) forest.Add({.parent = prefix, .length = 1, .own_rows = 1});
}

TEST(WorkUnits, AnEmptyPlanHasNone) {
  const AttentionPlan plan = BuildPlan({}, {}, {});
  for (const UnitForm form : kBothForms) {
    const HostUnits units = UnitsOf(WholeItems(plan), {}, {4, 2, form}, 5);
    EXPECT_TRUE(units.many_rows.empty() && units.few_rows.empty());
    EXPECT_EQ(units.counts.wide + units.counts.narrow + units.counts.wide_blocks, 0);
  }
}

TEST(WorkUnits, OneRow) {
  PlanForest forest;
  forest.Add({.length = 40, .own_rows = 1});
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
  const HostUnits blocks =
      UnitsOf(WholeItems(plan), forest.positions(), {4, 2, UnitForm::kBlocks}, 5);
  ASSERT_EQ(blocks.many_rows.size(), 1u);
  EXPECT_EQ(blocks.counts.wide_blocks, 5);
  const HostUnits narrow =
      UnitsOf(WholeItems(plan), forest.positions(), {4, 2, UnitForm::kWideAndNarrow}, 5);
  ASSERT_EQ(narrow.few_rows.size(), 1u);
  EXPECT_EQ(narrow.counts.wide_blocks, 0);
  for (const WorkUnit& unit : {blocks.many_rows[0], narrow.few_rows[0]}) {
    EXPECT_EQ(unit.lowest_offset, 39);
    EXPECT_EQ(unit.highest_offset, 39);
    EXPECT_EQ(unit.key_end, 40);
  }
}

// Heads of one row may fill several units, and a unit may begin within a row.
TEST(WorkUnits, TilesOfPackedRows) {
  PlanForest forest;
  AddSharedPrefix(forest, 100, 30);
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
  const auto first_rows = [&](int ratio, UnitForm form) {
    const HostUnits units = UnitsOf(WholeItems(plan), forest.positions(), {ratio, 1, form}, 1);
    std::vector<std::int32_t> first;
    for (const WorkUnit& unit : units.many_rows) {
      if (KeysOf(unit) == 100) first.push_back(unit.first_packed_row);
    }
    return first;
  };
  using List = std::vector<std::int32_t>;
  EXPECT_EQ(first_rows(5, UnitForm::kBlocks), (List{0, 64, 128}));
  EXPECT_EQ(first_rows(5, UnitForm::kWideAndNarrow), (List{0, 128}));
  EXPECT_EQ(first_rows(1, UnitForm::kWideAndNarrow), (List{0}));
  // The private ends, a key and a row each: two tiles of 8 hold 16 heads; 17 are wide.
  for (const auto& [ratio, narrow] : {std::pair{8, 30}, {9, 60}, {16, 60}, {17, 0}}) {
    const HostUnits units =
        UnitsOf(WholeItems(plan), forest.positions(), {ratio, 1, UnitForm::kWideAndNarrow}, 1);
    EXPECT_EQ(units.counts.narrow, narrow) << ratio << " heads";
  }
}

// Joined groups are one unit, wide however few its rows are; groups alone go by their rows.
TEST(WorkUnits, JoinedGroups) {
  PlanForest forest;
  AddSharedPrefix(forest, kChunkKeys + kGroupKeys + 5, 2);
  const auto lengths = [&](const GroupJoining& joining) {
    const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {.joining = joining});
    const HostUnits units =
        UnitsOf(WholeItems(plan), forest.positions(), {1, 1, UnitForm::kWideAndNarrow}, 1);
    std::vector<std::int32_t> wide;
    for (const WorkUnit& unit : units.many_rows) wide.push_back(KeysOf(unit));
    return std::pair(wide, units.counts.narrow);
  };
  using List = std::vector<std::int32_t>;
  EXPECT_EQ(lengths({}), std::pair(List{}, 6 + 2));
  EXPECT_EQ(lengths({.least_rows = 2}), std::pair(List{kChunkKeys, kGroupKeys + 5}, 2));
}

// The plan goes by length alone: units bring the readers of a prefix together.
TEST(WorkUnits, ReadersOfTheSameKeysStandTogether) {
  PlanForest forest;
  AddSharedPrefix(forest, kGroupKeys, 2 * 63 + 40);
  const int second = static_cast<int>(forest.nodes().size());
  AddSharedPrefix(forest, kGroupKeys, 2 * 63 + 40);
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {.max_item_rows = 63});
  const HostUnits units =
      UnitsOf(WholeItems(plan), forest.positions(), {2, 1, UnitForm::kWideAndNarrow}, 1);
  const auto is_second = [&](std::int32_t first_page) {
    return first_page == plan.spans[second].first_page;
  };
  std::vector<bool> of_items, of_units;
  for (const WorkItem& item : plan.items) {
    if (item.row_end - item.row_begin > 1) of_items.push_back(item.span == second);
  }
  for (const WorkUnit& unit : units.many_rows) of_units.push_back(is_second(unit.first_page));
  EXPECT_EQ(of_items, (std::vector<bool>{0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(of_units, (std::vector<bool>{0, 0, 0, 1, 1, 1}));
}

// By these a kernel skips the cuts before a window and those behind all rows: they must reach as
// far as the unit's own rows, and no further, also where a unit begins within a row.
TEST(WorkUnits, OffsetsAreThoseOfTheUnitsOwnRows) {
  PlanForest forest;
  const int before = forest.Add({.length = 50});
  forest.Add({.parent = before, .length = 148, .own_rows = 64});  // at 84 to 147 of its keys
  const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), {});
  const auto bounds = [&](UnitForm form) {
    std::vector<std::pair<int, int>> of_units;
    for (const WorkUnit& unit :
         UnitsOf(WholeItems(plan), forest.positions(), {3, 1, form}, 1).many_rows) {
      if (KeysOf(unit) == 148) of_units.push_back({unit.lowest_offset, unit.highest_offset});
    }
    return of_units;
  };
  using List = std::vector<std::pair<int, int>>;
  EXPECT_EQ(bounds(UnitForm::kBlocks), (List{{84, 105}, {105, 126}, {126, 147}}));
  EXPECT_EQ(bounds(UnitForm::kWideAndNarrow), (List{{84, 126}, {126, 147}}));
}

}  // namespace

namespace {

constexpr Opening kCut = Opening::kCut, kGroup = Opening::kGroup, kChunk = Opening::kChunk,
                  kRest = Opening::kRest;

AttentionPlan PlanOf(const std::vector<std::vector<Opening>>& rows) {
  AttentionPlan plan;
  plan.merge_begin.push_back(0);
  for (const std::vector<Opening>& row : rows) {
    for (const Opening opens : row) {
      plan.merges.push_back({static_cast<std::int32_t>(plan.merges.size()), opens});
    }
    plan.merge_begin.push_back(static_cast<std::int32_t>(plan.merges.size()));
  }
  return plan;
}

// Partials as letters, merges as "(a b)"; "" is the empty one.
std::string Merged(const std::string& a, const std::string& b) {
  if (a.empty()) return b;
  return b.empty() ? a : "(" + a + " " + b + ")";
}
std::string Scaled(const std::string& context) { return context.empty() ? "" : context + "'"; }
std::string Letter(std::int32_t partial) { return {static_cast<char>('a' + partial % 26)}; }

// The order of plan/attention_plan.h, level by level.
std::string Canonical(const AttentionPlan& plan, std::size_t row) {
  std::string total, chunk, group;
  for (auto i = plan.merge_begin[row]; i < plan.merge_begin[row + 1]; ++i) {
    const MergeEntry& entry = plan.merges[static_cast<std::size_t>(i)];
    if (entry.opens != kCut) chunk = Merged(chunk, std::exchange(group, ""));
    if (entry.opens >= kChunk) total = Merged(total, std::exchange(chunk, ""));
    if (entry.opens == kRest) total = Scaled(total);
    group = Merged(group, Letter(entry.partial));
  }
  return Merged(total, Merged(chunk, group));
}

std::string Followed(const AttentionPlan& plan, const std::vector<MergeStep>& steps,
                     std::size_t row) {
  std::string running;
  std::vector<std::string> aside;
  for (auto i = plan.merge_begin[row]; i < plan.merge_begin[row + 1]; ++i) {
    const MergeStep& step = steps[static_cast<std::size_t>(i)];
    if (step.scales_context > 0) {
      EXPECT_TRUE(aside.empty());
      running = Scaled(running);
    }
    if (step.opens > 0) aside.push_back(std::exchange(running, ""));
    EXPECT_LE(aside.size(), static_cast<std::size_t>(kMostAside));
    running = Merged(running, Letter(step.partial));
    for (int times = step.closes; times > 0; --times) {
      if (aside.empty()) return "nothing to close";
      running = Merged(aside.back(), running);
      aside.pop_back();
    }
  }
  EXPECT_TRUE(aside.empty());
  return running;
}

TEST(MergeSteps, OrdinaryListsNeedOneRunningPartial) {
  // Two groups of a prefix and a private end; three segments of one entry.
  const AttentionPlan plan = PlanOf({{kChunk, kGroup, kChunk}, {kChunk, kChunk, kChunk}});
  for (const MergeStep& step : MergeStepsOf(plan)) {
    EXPECT_EQ(step.opens, 0);
    EXPECT_EQ(step.closes, 0);
  }
}

TEST(MergeSteps, FollowTheCanonicalOrder) {
  std::mt19937 random(5);
  std::vector<std::vector<Opening>> rows = {
      {},
      {kChunk},
      {kChunk, kChunk, kGroup, kGroup, kChunk},
      {kChunk, kCut, kGroup, kCut, kCut, kChunk, kGroup, kCut, kChunk, kCut}};
  for (int i = 0; i < 500; ++i) {
    std::vector<Opening> row = {kChunk};
    while (random() % 12 != 0) row.push_back(static_cast<Opening>(random() % 3));
    if (i % 2 == 0) {
      const std::size_t rest = random() % row.size();
      row[rest] = kRest;
    }
    rows.push_back(row);
  }
  const AttentionPlan plan = PlanOf(rows);
  const std::vector<MergeStep> steps = MergeStepsOf(plan);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(Followed(plan, steps, row), Canonical(plan, row)) << "row " << row;
  }
}

}  // namespace

}  // namespace banyan
