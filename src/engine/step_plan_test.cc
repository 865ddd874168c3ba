// A decision over streams in memory as arrays; step_builder_test.cc has the order of rows.
#include "engine/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/step_composer.h"
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

class StepPlanTest : public ::testing::Test {
 protected:
  StepPlan NewPlan(Strategy strategy = Strategy::kAuto) {
    EngineOptions options;
    options.strategy = strategy;
    return StepPlan(options, SharedModel()->parts(),
                    {streams_.running(), streams_.memory, skeletons_});
  }

  StreamsInMemory streams_{64};
  SkeletonTurns skeletons_{streams_.running(), streams_.memory};
  StepComposer composer_{{.logit_rows = 8, .mixed_rows = 64, .fair = false},
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
  writing.tokens_under_way = 1;
  writing.choice = 3;
  StepPlan plan = NewPlan();
  plan.Build(composer_.Decide(40));
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
  writing.tokens_under_way = 0;
}

TEST_F(StepPlanTest, AnswersToOnePromptBeginFromOneRow) {
  streams_.Submit(Prompt(Tokens(100, 1), {Ask(1, 8), Ask(2, 8)}), 1);
  streams_.admission.Admit();
  StepPlan plan = NewPlan();
  plan.Build(composer_.Decide(512));
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
  plan.Build(composer_.Decide(512));
  std::vector<int> stacks;
  for (const PlanNode& node : plan.nodes()) stacks.push_back(node.stack);
  EXPECT_THAT(stacks, ElementsAre(-1, 5, 6));
}

}  // namespace
}  // namespace banyan
