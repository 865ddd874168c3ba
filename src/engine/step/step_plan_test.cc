// A decision becomes arrays: rows depth-first, the readers of every node one range; then the same
// over streams in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <random>

#include "engine/schedule/scheduler.h"
#include "engine/step/step_plan.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::SharedModel;
using testing_support::StreamsInMemory;
using testing_support::Tokens;
using SomeTokens = std::vector<TokenId>;

class StepBuilderTest : public ::testing::Test {
 protected:
  NodeId Add(NodeId parent, const SomeTokens& tokens, int filled, std::int32_t variant = 0) {
    std::vector<NodeSplit> splits;
    const NodeId node = forest_.AddSegment(parent, {tokens, {}, true, 0, variant}, splits);
    for (const NodeSplit& split : splits) cache_.Split(split);
    cache_.Pin(node);
    EXPECT_TRUE(cache_.Reserve(node, static_cast<int>(tokens.size())));
    cache_.MarkFilled(node, filled);
    return node;
  }
  // [nodes] of the step that was built last.
  std::vector<std::int32_t> LogitRows(const std::vector<NodeId>& nodes) const {
    std::vector<std::int32_t> rows;
    for (const NodeId node : nodes) rows.push_back(builder_.LogitRow(node));
    return rows;
  }

  Forest forest_{kCutKeys, std::vector<Digest>(3)};
  KvCache cache_{forest_, 400};
  StepBuilder builder_{forest_, cache_};
};

TEST_F(StepBuilderTest, RowsOfOneVariantStandTogether) {
  const NodeId two = Add(NodeId(), {1, 2}, 0, 2);
  const NodeId plain = Add(NodeId(), {1, 2}, 0);
  const NodeId below = Add(two, {5}, 0);
  const NodeId one = Add(NodeId(), {3}, 0, 1);
  const NodeId other = Add(NodeId(), {4, 4}, 1, 2);
  const std::vector<NodeRows> rows = {{two, 0, 2, false},
                                      {plain, 0, 2, true},
                                      {below, 0, 1, true},
                                      {one, 0, 1, true},
                                      {other, 1, 1, true}};
  const BuiltStep& built = builder_.Build(rows, {});
  EXPECT_EQ(built.batch.variants, (std::vector<std::int32_t>{0, 0, 1, 2, 2, 2, 2}));
  EXPECT_EQ(built.batch.tokens, (SomeTokens{1, 2, 3, 1, 2, 5, 4}));
  EXPECT_THAT(LogitRows({plain, one, below, other, two}), ElementsAre(0, 1, 2, 3, -1));
  // A step of the model itself says nothing of variants.
  EXPECT_TRUE(builder_.Build(std::span(rows).subspan(1, 1), {}).batch.variants.empty());
}

TEST_F(StepBuilderTest, RowsAreDepthFirstWhateverTheOrderOfTheDecision) {
  const NodeId p = Add(NodeId(), {1, 2, 3}, 3);
  const NodeId a = Add(p, {4, 5}, 0);
  const NodeId b = Add(p, {6, 7, 8}, 1);
  const NodeId c = Add(a, {9}, 0);
  const NodeId q = Add(NodeId(), {10, 11}, 1);
  // b before a's child: a's subtree must still be one range.
  const std::vector<NodeRows> rows = {
      {a, 0, 2, true}, {b, 1, 2, true}, {c, 0, 1, true}, {q, 1, 1, false}};
  const BuiltStep& step = builder_.Build(rows, {});
  EXPECT_EQ(step.batch.tokens, (SomeTokens{4, 5, 9, 7, 8, 11}));
  EXPECT_EQ(step.batch.positions, (std::vector<std::int32_t>{3, 4, 5, 4, 5, 1}));
  EXPECT_EQ(step.batch.logit_rows, (std::vector<std::int32_t>{1, 2, 4}));
  EXPECT_THAT(LogitRows({a, c, b, p, q}), ElementsAre(0, 1, 2, -1, -1));
  ASSERT_EQ(step.nodes.size(), 5u);
  EXPECT_EQ(step.nodes[0].parent, -1);
  EXPECT_EQ(step.nodes[0].row_begin, step.nodes[0].row_end);  // p is read, not fed
  EXPECT_EQ(step.nodes[0].length, 3);
  EXPECT_EQ(step.nodes[2].parent, 1);
  EXPECT_EQ(step.nodes[3].length, 3);
  EXPECT_EQ(step.nodes[3].row_begin, 3);
  EXPECT_EQ(step.nodes[4].parent, -1);
  EXPECT_EQ(step.batch.slots[0], cache_.Slot(a, 0));
  EXPECT_EQ(step.batch.slots[5], cache_.Slot(q, 1));
}

TEST_F(StepBuilderTest, ARowFedOnceMoreShortensNothing) {
  const NodeId p = Add(NodeId(), SomeTokens(40, 1), 40);
  const std::vector<NodeRows> rows = {{p, 39, 1, true}};
  const BuiltStep& step = builder_.Build(rows, {});
  EXPECT_EQ(step.nodes[0].length, 40);
  EXPECT_EQ(step.nodes[0].pages.size(), 3u);
  EXPECT_EQ(step.batch.positions, (std::vector<std::int32_t>{39}));
}

TEST_F(StepBuilderTest, PartsOfOneSegmentKeepTheirPlaceInItsChunks) {
  SomeTokens tokens(kGroupKeys + 2 * kCutKeys + 5, 1);
  const NodeId whole = Add(NodeId(), tokens, 0);
  tokens.resize(kGroupKeys + kCutKeys);
  tokens.push_back(2);
  const NodeId other = Add(NodeId(), tokens, 0);
  const std::vector<NodeRows> rows = {{whole, 0, 1, false}, {other, 0, 1, false}};
  const BuiltStep& step = builder_.Build(rows, {});
  ASSERT_EQ(step.nodes.size(), 3u);
  EXPECT_FALSE(step.nodes[0].continues_parent);
  EXPECT_TRUE(step.nodes[1].continues_parent);
  EXPECT_EQ(step.nodes[1].chunk_phase, kCutsPerGroup + 1);
  EXPECT_EQ(step.nodes[2].chunk_phase, kCutsPerGroup + 1);
  EXPECT_EQ(step.nodes[1].first_position, kGroupKeys + kCutKeys);
}

TEST_F(StepBuilderTest, StacksAreHandedOn) {
  const NodeId p = Add(NodeId(), {1}, 1);
  const NodeId a = Add(p, {2}, 0);
  const std::vector<NodeRows> rows = {{a, 0, 1, true}};
  const BuiltStep& step = builder_.Build(rows, [&](NodeId node) { return node == a ? 7 : -1; });
  EXPECT_EQ(step.nodes[0].stack, -1);
  EXPECT_EQ(step.nodes[1].stack, 7);
}

TEST_F(StepBuilderTest, ANodeTwiceIsABug) {
  const NodeId p = Add(NodeId(), {1, 2}, 0);
  const std::vector<NodeRows> rows = {{p, 0, 1, false}, {p, 1, 1, true}};
  EXPECT_DEATH(builder_.Build(rows, {}), "rows");
}

// Any decision gives arrays that make a plan which covers every visible pair once.
TEST_F(StepBuilderTest, RandomDecisionsMakePlans) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<NodeId> nodes;
  for (int i = 0; i < 60; ++i) {
    const NodeId parent =
        nodes.empty() || below(4) == 0 ? NodeId() : nodes[random() % nodes.size()];
    SomeTokens tokens(static_cast<size_t>(1 + below(i % 10 == 0 ? 300 : 30)), below(5));
    const NodeId node = Add(parent, tokens, 0);
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  }
  for (const NodeId node : nodes) {
    cache_.MarkFilled(node, static_cast<int>(forest_.at(node).tokens.size()));
  }
  for (int round = 0; round < 200; ++round) {
    std::ranges::shuffle(nodes, random);
    std::vector<NodeRows> rows;
    for (size_t i = 0; i < static_cast<size_t>(1 + below(20)); ++i) {
      const auto size = static_cast<int>(forest_.at(nodes[i]).tokens.size());
      const int first = below(size);
      rows.push_back({nodes[i], first, 1 + below(size - first), below(2) == 0});
    }
    const BuiltStep& step = builder_.Build(rows, {});
    EXPECT_TRUE(std::ranges::is_sorted(step.batch.logit_rows));
    EXPECT_EQ(step.batch.logit_rows.size(),
              static_cast<size_t>(std::ranges::count(rows, true, &NodeRows::logits)));
    size_t total = 0;
    for (const NodeRows& part : rows) total += static_cast<size_t>(part.count);
    EXPECT_EQ(step.batch.tokens.size(), total);
    for (const ItemSharing sharing :
         {ItemSharing::kTree, ItemSharing::kPerStream, ItemSharing::kAuto}) {
      PlanOptions options;
      options.sharing = sharing;
      CheckPlan(BuildPlan(step.nodes, step.batch.positions, options), step.nodes,
                step.batch.positions);
    }
  }
}

class StepPlanTest : public ::testing::Test {
 protected:
  StepPlan NewPlan(Strategy strategy = Strategy::kAuto) {
    EngineOptions options;
    options.strategy = strategy;
    return StepPlan(options, SharedModel()->parts(),
                    {streams_.running(), streams_.memory, skeletons_});
  }

  StreamsInMemory streams_{64};
  SkeletonSchedule skeletons_{streams_.running(), streams_.memory};
  Scheduler scheduler_{{.logit_rows = 8, .mixed_rows = 64, .fair = false},
                       streams_.admission,
                       streams_.memory,
                       skeletons_};
  std::vector<std::int32_t> logits_;
};

TEST_F(StepPlanTest, PromptsComeBeforeStreamsThatWriteAndFeedWhatIsBeingChosen) {
  streams_.Submit(100, 1);
  streams_.Submit(100, 2);
  streams_.admission.Admit();
  Stream& writing = streams_.at(0);
  streams_.ComputePrompt(writing);
  streams_.Write(writing);
  writing.tokens_in_flight = 1;
  writing.choice = 3;
  StepPlan plan = NewPlan();
  plan.Build(scheduler_.Decide(40));
  ASSERT_EQ(plan.rows().size(), 2u);
  EXPECT_EQ(plan.rows()[0].node, streams_.at(1).lead().leaf);
  EXPECT_EQ(plan.rows()[0].count, 39);
  EXPECT_EQ(plan.rows()[1].node, writing.lead().tail);
  EXPECT_EQ(plan.rows()[1].first_key, 1);  // after the token that is known
  EXPECT_EQ(plan.batch().rows(), 40);
  EXPECT_THAT(plan.batch().tokens, Contains(ChoiceToken(3)).Times(1));
  EXPECT_TRUE(plan.FindLogits(writing, logits_));
  EXPECT_THAT(logits_, ElementsAre(0));
  EXPECT_FALSE(plan.FindLogits(streams_.at(1), logits_));  // its prompt is not complete
  EXPECT_EQ(plan.Count().rows, 40);
  writing.tokens_in_flight = 0;
}

TEST_F(StepPlanTest, AnswersToOnePromptBeginFromOneRow) {
  streams_.Submit(Prompt(Tokens(100, 1), {Ask(1, 8), Ask(2, 8)}), 1);
  streams_.admission.Admit();
  StepPlan plan = NewPlan();
  plan.Build(scheduler_.Decide(512));
  EXPECT_EQ(plan.batch().rows(), 100);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(plan.FindLogits(streams_.at(i), logits_));
    EXPECT_THAT(logits_, ElementsAre(0));
  }
}

// What streams of several stacks read belongs to none.
TEST_F(StepPlanTest, NodesAreMarkedWithTheirStack) {
  PromptSegment root = Prompt(Tokens(40, 1), {});
  root.below.push_back(Prompt(Tokens(70, 2), {Ask(1, 8)}));
  root.below.push_back(Prompt(Tokens(70, 3), {Ask(2, 8)}));
  streams_.Submit(root, 1);
  streams_.admission.Admit();
  for (size_t i = 0; i < 2; ++i) streams_.at(i).declared().stack = 5 + static_cast<int>(i);
  StepPlan plan = NewPlan(Strategy::kStacked);
  plan.Build(scheduler_.Decide(512));
  std::vector<int> stacks;
  for (const PlanNode& node : plan.nodes()) stacks.push_back(node.stack);
  EXPECT_THAT(stacks, ElementsAre(-1, 5, 6));
}

}  // namespace

}  // namespace banyan
