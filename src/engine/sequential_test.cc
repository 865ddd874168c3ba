// The baselines: answers one after another in one prompt, and the ceiling without attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/engine.h"
#include "support/byte_model.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::Answers;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::RunOne;
using testing_support::Tokens;

// All questions in one prompt, then the answers in turn, each after the earlier ones.
TEST(EngineSequential, AnswersFollowOneAnother) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(40, 1), {});
  std::vector<TokenId> all = context.tokens;
  for (std::uint32_t q = 0; q < 3; ++q) {
    context.below.push_back(Prompt(Tokens(7, 10 + q), {Ask(q, 4)}));
    all.insert(all.end(), context.below.back().tokens.begin(), context.below.back().tokens.end());
  }
  const AnswersByTag found = Answers({context}, sequential);
  ASSERT_EQ(found.size(), 3u);
  // The same as one long answer to the whole prompt, up to rounding: segments are cut elsewhere.
  const Answer whole = RunOne(Prompt(all, {Ask(0, 12)}));
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  for (const auto& [tag, answer] : found) {
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    logprobs.insert(logprobs.end(), answer.logprobs.begin(), answer.logprobs.end());
  }
  EXPECT_EQ(tokens, whole.tokens);
  ASSERT_EQ(logprobs.size(), whole.logprobs.size());
  for (size_t i = 0; i < logprobs.size(); ++i) EXPECT_NEAR(logprobs[i], whole.logprobs[i], 1e-4);
}

TEST(EngineSequential, AStoppedAnswerMakesRoomForTheNext) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(40, 1), {});
  for (std::uint32_t q = 0; q < 3; ++q) {
    context.below.push_back(Prompt(Tokens(7, 10 + q), {Ask(q, q == 1 ? 0 : 4)}));
  }
  context.below[0].answers[0].max_new = 0;  // the first and second want nothing
  const AnswersByTag found = Answers({context}, sequential);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found.at(0).tokens.empty());
  EXPECT_TRUE(found.at(1).tokens.empty());
  EXPECT_EQ(found.at(2).tokens.size(), 4u);
}

TEST(EngineSequential, TheContextEndsTheTurn) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(290, 1), {});
  for (std::uint64_t q = 0; q < 3; ++q) context.below.push_back(Prompt({1}, {Ask(q, 5)}));
  const AnswersByTag found = Answers({context}, sequential);
  EXPECT_EQ(found.at(0).tokens.size(), 5u);
  EXPECT_EQ(found.at(1).tokens.size(), 2u);
  EXPECT_EQ(found.at(2).finish, FinishReason::kError);
  EXPECT_THAT(found.at(2).error, HasSubstr("context"));
}

TEST(EngineNoAttention, RunsAndIsWrong) {
  EngineOptions none;
  none.strategy = Strategy::kNoAttention;
  const Answer ceiling = RunOne(Prompt(Tokens(60, 1), {Ask(0, 10)}), none);
  EXPECT_EQ(ceiling.tokens.size(), 10u);
  EXPECT_NE(ceiling.tokens, RunOne(Prompt(Tokens(60, 1), {Ask(0, 10)})).tokens);
}

}  // namespace
}  // namespace banyan
