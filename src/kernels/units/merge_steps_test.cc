#include "kernels/units/merge_steps.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace banyan {
namespace {

constexpr Opening kCut = Opening::kCut, kGroup = Opening::kGroup, kStretch = Opening::kStretch,
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
  std::string total, stretch, group;
  for (auto i = plan.merge_begin[row]; i < plan.merge_begin[row + 1]; ++i) {
    const MergeEntry& entry = plan.merges[static_cast<std::size_t>(i)];
    if (entry.opens != kCut) stretch = Merged(stretch, std::exchange(group, ""));
    if (entry.opens >= kStretch) total = Merged(total, std::exchange(stretch, ""));
    if (entry.opens == kRest) total = Scaled(total);
    group = Merged(group, Letter(entry.partial));
  }
  return Merged(total, Merged(stretch, group));
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
  const AttentionPlan plan = PlanOf({{kStretch, kGroup, kStretch}, {kStretch, kStretch, kStretch}});
  for (const MergeStep& step : MergeStepsOf(plan)) {
    EXPECT_EQ(step.opens, 0);
    EXPECT_EQ(step.closes, 0);
  }
}

TEST(MergeSteps, FollowTheCanonicalOrder) {
  std::mt19937 random(5);
  std::vector<std::vector<Opening>> rows = {
      {},
      {kStretch},
      {kStretch, kStretch, kGroup, kGroup, kStretch},
      {kStretch, kCut, kGroup, kCut, kCut, kStretch, kGroup, kCut, kStretch, kCut}};
  for (int i = 0; i < 500; ++i) {
    std::vector<Opening> row = {kStretch};
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
