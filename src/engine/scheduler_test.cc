// The decision of a step as a pure function: literals, then properties on random views.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace banyan {
namespace {

PromptNode Part(int node, int tokens, int filled = 0) { return {NodeId(node), tokens, filled}; }

PrefillView Prompt(int stream, std::vector<PromptNode> path) {
  return {StreamId(stream), std::move(path)};
}

void ExpectPart(const PrefillPart& part, int node, int first_key, int count, bool logits) {
  EXPECT_EQ(part.node, NodeId(node));
  EXPECT_EQ(part.first_key, first_key);
  EXPECT_EQ(part.count, count);
  EXPECT_EQ(part.logits, logits);
}

TEST(Scheduler, NothingToDo) { EXPECT_TRUE(DecideStep({}, 8).empty()); }

TEST(Scheduler, WholePromptInOneStep) {
  const StepDecision step = DecideStep({{}, {Prompt(0, {Part(0, 3), Part(1, 4)})}}, 8);
  ASSERT_EQ(step.prefill.size(), 2u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  ExpectPart(step.prefill[1], 1, 0, 4, true);
  EXPECT_EQ(step.rows(), 7);
}

TEST(Scheduler, PromptInPieces) {
  const StepDecision first = DecideStep({{}, {Prompt(0, {Part(0, 3), Part(1, 4)})}}, 5);
  ASSERT_EQ(first.prefill.size(), 2u);
  ExpectPart(first.prefill[1], 1, 0, 2, false);
  const StepDecision second = DecideStep({{}, {Prompt(0, {Part(0, 3, 3), Part(1, 4, 2)})}}, 5);
  ASSERT_EQ(second.prefill.size(), 1u);
  ExpectPart(second.prefill[0], 1, 2, 2, true);
}

TEST(Scheduler, DecodingComesFirst) {
  const SchedulerView view{{StreamId(4), StreamId(2)}, {Prompt(0, {Part(0, 9)})}};
  const StepDecision step = DecideStep(view, 5);
  EXPECT_EQ(step.extend, (std::vector<StreamId>{StreamId(4), StreamId(2)}));
  ASSERT_EQ(step.prefill.size(), 1u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  EXPECT_EQ(DecideStep(view, 1).extend, (std::vector<StreamId>{StreamId(4)}));
}

TEST(Scheduler, SharedNodesOnce) {
  const StepDecision step = DecideStep(
      {{}, {Prompt(0, {Part(0, 3), Part(1, 2)}), Prompt(1, {Part(0, 3), Part(2, 2)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 3u);
  ExpectPart(step.prefill[0], 0, 0, 3, false);
  ExpectPart(step.prefill[1], 1, 0, 2, true);
  ExpectPart(step.prefill[2], 2, 0, 2, true);
}

TEST(Scheduler, SamplesOfOnePromptShareItsLogits) {
  const StepDecision step = DecideStep({{}, {Prompt(0, {Part(0, 3)}), Prompt(1, {Part(0, 3)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 1u);
  ExpectPart(step.prefill[0], 0, 0, 3, true);
}

TEST(Scheduler, ACompletePromptIsFedItsLastTokenOnceMore) {
  const StepDecision step =
      DecideStep({{}, {Prompt(0, {Part(0, 3, 3), Part(1, 4, 4)}), Prompt(1, {Part(0, 3, 3)})}}, 9);
  ASSERT_EQ(step.prefill.size(), 2u);
  ExpectPart(step.prefill[0], 1, 3, 1, true);
  ExpectPart(step.prefill[1], 0, 2, 1, true);
}

TEST(Scheduler, APromptThatEndsInsideAnother) {
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

TEST(SchedulerProperty, RandomForestsRunToTheirEnd) {
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
      for (const PrefillPart& part : step.prefill) {
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
      for (const PrefillPart& part : step.prefill) {
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

}  // namespace
}  // namespace banyan
