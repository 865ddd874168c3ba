// The decision of a step as a pure function: literals, then properties on random views.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/schedule/scheduler.h"
#include "engine/schedule/skeleton.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

PromptNode Part(int node, int tokens, int filled = 0) { return {NodeId(node), tokens, filled}; }

// A stream that waits for its prompt's last logits.
struct PrefillView {
  StreamId stream;
  std::vector<PromptNode> path;  // root first, not empty
};
struct SchedulerView {
  std::vector<StreamId> decoding;       // each wants one row
  std::vector<PrefillView> prefilling;  // in order of admission
};

StepDecision DecideStep(const SchedulerView& view, int batch_rows) {
  RowBudget scheduler;
  scheduler.Begin(batch_rows);
  for (const StreamId stream : view.decoding) scheduler.Extend(stream);
  for (const PrefillView& stream : view.prefilling) {
    if (scheduler.full()) break;
    scheduler.Prefill(stream.path);
  }
  return scheduler.decision();
}

PrefillView Prompt(int stream, std::vector<PromptNode> path) {
  return {StreamId(stream), std::move(path)};
}

void ExpectPart(const NodeRows& part, int node, int first_key, int count, bool logits) {
  EXPECT_EQ(part.node, NodeId(node));
  EXPECT_EQ(part.first_key, first_key);
  EXPECT_EQ(part.count, count);
  EXPECT_EQ(part.logits, logits);
}

TEST(RowBudget, NothingToDo) { EXPECT_TRUE(DecideStep({}, 8).empty()); }

TEST(RowBudget, WholePromptInOneStep) {
  const StepDecision step = DecideStep({{}, {Prompt(0, {Part(0, 3), Part(1, 4)})}}, 8);
  ASSERT_EQ(step.prefill.size(), 2u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  ExpectPart(step.prefill[1], 1, 0, 4, true);
  EXPECT_EQ(step.rows(), 7);
}

TEST(RowBudget, PromptInPieces) {
  const StepDecision first = DecideStep({{}, {Prompt(0, {Part(0, 3), Part(1, 4)})}}, 5);
  ASSERT_EQ(first.prefill.size(), 2u);
  ExpectPart(first.prefill[1], 1, 0, 2, false);
  const StepDecision second = DecideStep({{}, {Prompt(0, {Part(0, 3, 3), Part(1, 4, 2)})}}, 5);
  ASSERT_EQ(second.prefill.size(), 1u);
  ExpectPart(second.prefill[0], 1, 2, 2, true);
}

// What cannot be fed again keeps its last token until its logits have room.
TEST(RowBudget, ATokenThatIsFedOnceWaitsForItsLogits) {
  const std::vector<PromptNode> first = {Part(0, 3)};
  std::vector<PromptNode> second = {Part(1, 4)};
  second.back().once = true;
  RowBudget budget;
  budget.Begin(20, /*logit_rows=*/1);
  budget.Prefill(first);
  budget.Prefill(second);
  ASSERT_EQ(budget.decision().prefill.size(), 2u);
  ExpectPart(budget.decision().prefill[0], 0, 0, 3, true);
  ExpectPart(budget.decision().prefill[1], 1, 0, 3, false);
  second.back().filled = 3;
  budget.Begin(20, 1);
  budget.Prefill(first);
  budget.Prefill(second);
  ASSERT_EQ(budget.decision().prefill.size(), 1u);
  budget.Begin(20, 1);
  budget.Prefill(second);
  ExpectPart(budget.decision().prefill[0], 1, 3, 1, true);
}

TEST(RowBudget, DecodingComesFirst) {
  const SchedulerView view{{StreamId(4), StreamId(2)}, {Prompt(0, {Part(0, 9)})}};
  const StepDecision step = DecideStep(view, 5);
  EXPECT_EQ(step.extend, (std::vector<StreamId>{StreamId(4), StreamId(2)}));
  ASSERT_EQ(step.prefill.size(), 1u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  EXPECT_EQ(DecideStep(view, 1).extend, (std::vector<StreamId>{StreamId(4)}));
}

TEST(RowBudget, SharedNodesOnce) {
  const StepDecision step = DecideStep(
      {{}, {Prompt(0, {Part(0, 3), Part(1, 2)}), Prompt(1, {Part(0, 3), Part(2, 2)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 3u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  ExpectPart(step.prefill[1], 1, 0, 2, true);
  ExpectPart(step.prefill[2], 2, 0, 2, true);
}

TEST(RowBudget, SamplesOfOnePromptShareItsLogits) {
  const StepDecision step = DecideStep({{}, {Prompt(0, {Part(0, 3)}), Prompt(1, {Part(0, 3)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 1u);
  ExpectPart(step.prefill[0], 0, 0, 3, true);
}

TEST(RowBudget, ACompletePromptIsFedItsLastTokenOnceMore) {
  const StepDecision step =
      DecideStep({{}, {Prompt(0, {Part(0, 3, 3), Part(1, 4, 4)}), Prompt(1, {Part(0, 3, 3)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 2u);
  ExpectPart(step.prefill[0], 1, 3, 1, true);
  ExpectPart(step.prefill[1], 0, 2, 1, true);
}

TEST(RowBudget, APromptThatEndsInsideAnother) {
  const PrefillView longer = Prompt(0, {Part(0, 3), Part(1, 2)});
  const PrefillView shorter = Prompt(1, {Part(0, 3)});
  for (const SchedulerView& view :
       {SchedulerView{{}, {longer, shorter}}, SchedulerView{{}, {shorter, longer}}}) {
    const StepDecision step = DecideStep(view, 9);
    ASSERT_EQ(step.prefill.size(), 2u);
    ExpectPart(step.prefill[0], 0, 0, 3, true);
    ExpectPart(step.prefill[1], 1, 0, 2, true);
  }
}

// A forest of prompts whose filled parts are as an engine leaves them.
struct World {
  struct NodeState {
    int parent = -1, tokens = 0, filled = 0;
  };
  std::vector<NodeState> nodes;
  std::vector<int> leaf_of;  // [prefilling streams]
  std::vector<StreamId> decoding;

  SchedulerView View() const {
    SchedulerView view{decoding, {}};
    for (size_t i = 0; i < leaf_of.size(); ++i) {
      if (leaf_of[i] < 0) continue;
      PrefillView prompt{StreamId(static_cast<int>(i)), {}};
      for (int n = leaf_of[i]; n >= 0; n = nodes[static_cast<size_t>(n)].parent) {
        const NodeState& node = nodes[static_cast<size_t>(n)];
        prompt.path.insert(prompt.path.begin(), Part(n, node.tokens, node.filled));
      }
      view.prefilling.push_back(std::move(prompt));
    }
    return view;
  }
};

TEST(RowBudgetProperty, RandomForestsRunToTheirEnd) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    World world;
    for (int n = 1 + below(12); n > 0; --n) {
      const int count = static_cast<int>(world.nodes.size());
      world.nodes.push_back({below(3) == 0 ? -1 : below(count + 1) - 1, 1 + below(20), 0});
      World::NodeState& node = world.nodes.back();
      const bool parent_full =
          node.parent < 0 || world.nodes[static_cast<size_t>(node.parent)].filled ==
                                 world.nodes[static_cast<size_t>(node.parent)].tokens;
      if (parent_full && below(3) == 0) node.filled = below(node.tokens + 1);
    }
    for (int s = below(8); s > 0; --s) {
      world.leaf_of.push_back(below(static_cast<int>(world.nodes.size())));
    }
    for (int d = below(5); d > 0; --d) world.decoding.push_back(StreamId(100 + d));
    const int batch_rows = static_cast<int>(world.decoding.size()) + 1 + below(30);
    int steps = 0;
    while (std::ranges::any_of(world.leaf_of, [](int leaf) { return leaf >= 0; })) {
      ASSERT_LT(++steps, 1000) << "no progress";
      const SchedulerView view = world.View();
      const StepDecision step = DecideStep(view, batch_rows);
      ASSERT_FALSE(step.empty());
      EXPECT_LE(step.rows(), batch_rows);
      EXPECT_EQ(step.extend, world.decoding);
      ASSERT_FALSE(step.prefill.empty()) << "rows were left for prompts";
      std::set<NodeId> seen;
      for (const NodeRows& part : step.prefill) {
        World::NodeState& node = world.nodes[part.node.index()];
        EXPECT_TRUE(seen.insert(part.node).second) << "a node twice";
        EXPECT_GE(part.count, 1);
        EXPECT_LE(part.first_key + part.count, node.tokens);
        // New rows follow what is there; a row fed once more is the last one, for its logits.
        const bool again = node.filled == node.tokens;
        EXPECT_EQ(part.first_key, again ? node.tokens - 1 : node.filled);
        EXPECT_TRUE(!again || (part.count == 1 && part.logits));
        if (node.parent >= 0) {
          const World::NodeState& parent = world.nodes[static_cast<size_t>(node.parent)];
          EXPECT_EQ(parent.filled, parent.tokens) << "a child before its parent";
        }
        node.filled = part.first_key + part.count;
        EXPECT_TRUE(!part.logits || node.filled == node.tokens);
      }
      for (const NodeRows& part : step.prefill) {
        const bool wanted = std::ranges::count(world.leaf_of, part.node.value) > 0;
        const World::NodeState& node = world.nodes[part.node.index()];
        EXPECT_TRUE(!part.logits || wanted);
        // Unless the step was full, whoever waits for a completed node gets its logits now.
        if (wanted && node.filled == node.tokens && step.rows() < batch_rows) {
          EXPECT_TRUE(part.logits);
        }
        if (part.logits) std::ranges::replace(world.leaf_of, part.node.value, -1);
      }
      if (HasFailure()) return;
    }
  }
}

TEST(StepRowLimit, ARefusalHalvesStepsAndTimeDoublesThem) {
  StepRowLimit limit(100);
  EXPECT_EQ(limit.rows(), 100);
  limit.Refused(100);
  EXPECT_EQ(limit.rows(), 50);
  limit.Refused(30);  // the step had fewer rows than it might
  EXPECT_EQ(limit.rows(), 15);
  EXPECT_EQ(limit.refusals(), 2);
  int steps = 0;
  for (; limit.rows() == 15; ++steps) limit.Launched();
  EXPECT_EQ(steps, 32);
  EXPECT_EQ(limit.rows(), 30);
  for (int i = 0; i < 1000; ++i) limit.Launched();
  EXPECT_EQ(limit.rows(), 100);
}

TEST(StepRowLimit, ARefusalBeginsTheWaitAnew) {
  StepRowLimit limit(8);
  limit.Refused(8);
  for (int i = 0; i < 31; ++i) limit.Launched();
  limit.Refused(4);
  for (int i = 0; i < 31; ++i) limit.Launched();
  EXPECT_EQ(limit.rows(), 2);
  limit.Launched();
  EXPECT_EQ(limit.rows(), 4);
}

class SchedulerTest : public ::testing::Test {
 protected:
  // Rows of the decision that are of the stream's own prompt.
  int PromptRows(const Scheduler& scheduler, const Stream& stream) const {
    int count = 0;
    for (const NodeRows& part : scheduler.decision().prefill) {
      for (const Branch& branch : stream.branches)
        count += part.node == branch.leaf ? part.count : 0;
    }
    return count;
  }
  Scheduler NewScheduler(const Scheduler::Limits& limits) {
    return Scheduler(limits, streams_.admission, streams_.memory, skeletons_);
  }

  StreamsInMemory streams_{64};
  SkeletonSchedule skeletons_{streams_.running(), streams_.memory};
};

TEST_F(SchedulerTest, StreamsThatWriteComeFirstAndPromptsGetTheRest) {
  streams_.Submit(100, 1);
  streams_.Submit(100, 2);
  streams_.admission.Admit();
  Stream& writing = streams_.at(0);
  streams_.ComputePrompt(writing);
  streams_.Write(writing);
  Scheduler scheduler = NewScheduler({.logit_rows = 8, .mixed_rows = 20, .fair = true});
  EXPECT_EQ(scheduler.Decide(64).rows(), 20);
  EXPECT_THAT(scheduler.decision().extend, ElementsAre(writing.id));
  EXPECT_EQ(PromptRows(scheduler, streams_.at(1)), 19);
  EXPECT_TRUE(scheduler.Touches(streams_.at(1).lead().leaf));
  // Prompts get a quarter of the mixed rows in any case.
  Scheduler few = NewScheduler({.logit_rows = 8, .mixed_rows = 1, .fair = true});
  EXPECT_EQ(few.Decide(64).rows(), 2);
}

TEST_F(SchedulerTest, ALongPromptLeavesHalfToOthers) {
  streams_.Submit(200, 1);
  streams_.Submit(90, 2);
  streams_.Submit(10, 3);
  streams_.admission.Admit();
  Scheduler fair = NewScheduler({.logit_rows = 8, .mixed_rows = 64, .fair = true});
  fair.Decide(40);
  EXPECT_EQ(PromptRows(fair, streams_.at(0)), 20);
  EXPECT_EQ(PromptRows(fair, streams_.at(1)), 10);
  EXPECT_EQ(PromptRows(fair, streams_.at(2)), 10);  // which misses least
  Scheduler in_order = NewScheduler({.logit_rows = 8, .mixed_rows = 64, .fair = false});
  in_order.Decide(40);
  EXPECT_EQ(PromptRows(in_order, streams_.at(0)), 40);
}

TEST_F(SchedulerTest, WhoseLastTokenIsUnderWayGetsNoRow) {
  PromptSegment root = Prompt(Tokens(100, 1), {Ask(1, 3)});
  streams_.Submit(root, 1);
  streams_.admission.Admit();
  Stream& stream = streams_.at(0);
  streams_.ComputePrompt(stream);
  streams_.Write(stream);
  Scheduler scheduler = NewScheduler({.logit_rows = 8, .mixed_rows = 64, .fair = true});
  stream.tokens_in_flight = 1;  // the second of three
  EXPECT_EQ(scheduler.Decide(64).rows(), 1);
  streams_.Write(stream);  // the third
  EXPECT_TRUE(scheduler.Decide(64).empty());
  stream.tokens_in_flight = 0;
}

// The branches of a panel get their logits in one step, so their last tokens wait for one another.
TEST_F(SchedulerTest, APanelHasItsFirstTokenInOneStep) {
  PromptSegment root = Prompt(Tokens(70, 1), {});
  root.below.push_back(Prompt(Tokens(70, 2), {Ask(5, 8)}));
  root.below.push_back(Prompt(Tokens(70, 3), {}));
  root.below[0].answers[0].panel = PanelOptions();
  root.below[1].experts.push_back({5, 1.0});
  streams_.Submit(root, 1);
  streams_.admission.Admit();
  ASSERT_EQ(streams_.at(0).branches.size(), 2u);
  Scheduler scheduler = NewScheduler({.logit_rows = 8, .mixed_rows = 256, .fair = true});
  const auto logits = [&] {
    int count = 0;
    for (const NodeRows& part : scheduler.decision().prefill) count += part.logits ? 1 : 0;
    return count;
  };
  EXPECT_EQ(scheduler.Decide(210).rows(), 210);  // all at once
  EXPECT_EQ(logits(), 2);
  EXPECT_EQ(scheduler.Decide(209).rows(), 208);  // without the last tokens
  EXPECT_EQ(logits(), 0);
  for (const NodeRows& part : scheduler.decision().prefill) {
    streams_.memory.MarkFilled(part.node, part.first_key + part.count);
  }
  EXPECT_EQ(scheduler.Decide(1).rows(), 2);  // never less than one stream's branches
  EXPECT_EQ(logits(), 2);
}

TEST_F(SchedulerTest, StreamsThatComeLastGiveWayToThoseThatGrow) {
  StreamsInMemory few(2 * 8 + 1);
  few.Submit(100, 1);
  few.Submit(100, 2);
  few.admission.Admit();
  for (size_t i = 0; i < 2; ++i) {
    few.ComputePrompt(few.at(i));
    for (int t = 0; t < 16; ++t) few.Write(few.at(i));
  }
  SkeletonSchedule none(few.running(), few.memory);
  Scheduler scheduler({.logit_rows = 8, .mixed_rows = 64, .fair = true}, few.admission, few.memory,
                      none);
  EXPECT_EQ(scheduler.Decide(64).rows(), 2);
  few.Write(few.at(0));
  few.Write(few.at(1));  // each wants a page now, and there is one
  EXPECT_EQ(scheduler.Decide(64).rows(), 1);
  EXPECT_THAT(few.RunningRequests(), ElementsAre(1u));
}

}  // namespace

}  // namespace banyan
