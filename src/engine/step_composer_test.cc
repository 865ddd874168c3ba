// What the next step computes for streams in memory; scheduler_test.cc has the decision itself.
#include "engine/step_composer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/streams_in_memory.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

class StepComposerTest : public ::testing::Test {
 protected:
  // Rows of the decision that are of the stream's own prompt.
  int PromptRows(const StepComposer& composer, const Stream& stream) const {
    int count = 0;
    for (const PrefillPart& part : composer.decision().prefill) {
      for (const Branch& branch : stream.branches)
        count += part.node == branch.leaf ? part.count : 0;
    }
    return count;
  }
  StepComposer NewComposer(const StepComposer::Limits& limits) {
    return StepComposer(limits, streams_.admission, streams_.memory, skeletons_);
  }

  StreamsInMemory streams_{64};
  SkeletonTurns skeletons_{streams_.running(), streams_.memory};
};

TEST_F(StepComposerTest, StreamsThatWriteComeFirstAndPromptsGetTheRest) {
  streams_.Submit(100, 1);
  streams_.Submit(100, 2);
  streams_.admission.Admit();
  Stream& writing = streams_.at(0);
  streams_.ComputePrompt(writing);
  streams_.Write(writing);
  StepComposer composer = NewComposer({.logit_rows = 8, .mixed_rows = 20, .fair = true});
  EXPECT_EQ(composer.Decide(64).rows(), 20);
  EXPECT_THAT(composer.decision().extend, ElementsAre(writing.id));
  EXPECT_EQ(PromptRows(composer, streams_.at(1)), 19);
  EXPECT_TRUE(composer.Touches(streams_.at(1).lead().leaf));
  // Prompts get a quarter of the mixed rows in any case.
  StepComposer few = NewComposer({.logit_rows = 8, .mixed_rows = 1, .fair = true});
  EXPECT_EQ(few.Decide(64).rows(), 2);
}

TEST_F(StepComposerTest, ALongPromptLeavesHalfToOthers) {
  streams_.Submit(200, 1);
  streams_.Submit(90, 2);
  streams_.Submit(10, 3);
  streams_.admission.Admit();
  StepComposer fair = NewComposer({.logit_rows = 8, .mixed_rows = 64, .fair = true});
  fair.Decide(40);
  EXPECT_EQ(PromptRows(fair, streams_.at(0)), 20);
  EXPECT_EQ(PromptRows(fair, streams_.at(1)), 10);
  EXPECT_EQ(PromptRows(fair, streams_.at(2)), 10);  // which misses least
  StepComposer in_order = NewComposer({.logit_rows = 8, .mixed_rows = 64, .fair = false});
  in_order.Decide(40);
  EXPECT_EQ(PromptRows(in_order, streams_.at(0)), 40);
}

TEST_F(StepComposerTest, WhoseLastTokenIsUnderWayGetsNoRow) {
  PromptSegment root = Prompt(Tokens(100, 1), {Ask(1, 3)});
  streams_.Submit(root, 1);
  streams_.admission.Admit();
  Stream& stream = streams_.at(0);
  streams_.ComputePrompt(stream);
  streams_.Write(stream);
  StepComposer composer = NewComposer({.logit_rows = 8, .mixed_rows = 64, .fair = true});
  stream.tokens_under_way = 1;  // the second of three
  EXPECT_EQ(composer.Decide(64).rows(), 1);
  streams_.Write(stream);  // the third
  EXPECT_TRUE(composer.Decide(64).empty());
  stream.tokens_under_way = 0;
}

// The branches of a panel get their logits in one step, so their last tokens wait for one another.
TEST_F(StepComposerTest, APanelHasItsFirstTokenInOneStep) {
  PromptSegment root = Prompt(Tokens(70, 1), {});
  root.below.push_back(Prompt(Tokens(70, 2), {Ask(5, 8)}));
  root.below.push_back(Prompt(Tokens(70, 3), {}));
  root.below[0].answers[0].panel = PanelOptions();
  root.below[1].experts.push_back({5, 1.0});
  streams_.Submit(root, 1);
  streams_.admission.Admit();
  ASSERT_EQ(streams_.at(0).branches.size(), 2u);
  StepComposer composer = NewComposer({.logit_rows = 8, .mixed_rows = 256, .fair = true});
  const auto logits = [&] {
    int count = 0;
    for (const PrefillPart& part : composer.decision().prefill) count += part.logits ? 1 : 0;
    return count;
  };
  EXPECT_EQ(composer.Decide(210).rows(), 210);  // all at once
  EXPECT_EQ(logits(), 2);
  EXPECT_EQ(composer.Decide(209).rows(), 208);  // without the last tokens
  EXPECT_EQ(logits(), 0);
  for (const PrefillPart& part : composer.decision().prefill) {
    streams_.memory.MarkFilled(part.node, part.first_key + part.count);
  }
  EXPECT_EQ(composer.Decide(1).rows(), 2);  // never less than one stream's branches
  EXPECT_EQ(logits(), 2);
}

TEST_F(StepComposerTest, StreamsThatComeLastGiveWayToThoseThatGrow) {
  StreamsInMemory few(2 * 8 + 1);
  few.Submit(100, 1);
  few.Submit(100, 2);
  few.admission.Admit();
  for (size_t i = 0; i < 2; ++i) {
    few.ComputePrompt(few.at(i));
    for (int t = 0; t < 16; ++t) few.Write(few.at(i));
  }
  SkeletonTurns none(few.running(), few.memory);
  StepComposer composer({.logit_rows = 8, .mixed_rows = 64, .fair = true}, few.admission,
                        few.memory, none);
  EXPECT_EQ(composer.Decide(64).rows(), 2);
  few.Write(few.at(0));
  few.Write(few.at(1));  // each wants a page now, and there is one
  EXPECT_EQ(composer.Decide(64).rows(), 1);
  EXPECT_THAT(few.RunningRequests(), ElementsAre(1u));
}

}  // namespace
}  // namespace banyan
