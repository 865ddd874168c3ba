// Tokens as they come, without a backend that chose them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/step/output_processor.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::SharedModel;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

TokenChoice Chosen(TokenId token) {
  TokenChoice choice;
  choice.token = token;
  choice.logprob = -0.5f;
  return choice;
}

class OutputProcessorTest : public ::testing::Test {
 protected:
  Stream& Begin(const AnswerRequest& answer, int prompt_tokens = 100) {
    streams_.Submit(Prompt(Tokens(prompt_tokens, 1), {answer}), 1);
    streams_.admission.Admit();
    return streams_.at(0);
  }
  // The one answer that has ended.
  Answer Ended() {
    EXPECT_TRUE(streams_.RunningRequests().empty());
    EXPECT_EQ(streams_.memory.cache().available_pages(), 64);
    std::vector<AnswerEvents::Delivery> taken = streams_.events.Take();
    EXPECT_EQ(taken.size(), 1u);
    return taken.empty() ? Answer() : std::move(taken.back().second.answer);
  }

  StreamsInMemory streams_{64};
  OutputProcessor output_{
      SharedModel()->parts(),
      {streams_.memory, streams_.in_flight, streams_.admission, streams_.events}};
};

TEST_F(OutputProcessorTest, AnAnswerEndsWithItsLastToken) {
  Stream& stream = Begin(Ask(7, 2));
  output_.Take(stream, Chosen(40));
  EXPECT_EQ(stream.state, Stream::State::kDecode);
  EXPECT_EQ(streams_.memory.Written(stream), 1);
  EXPECT_EQ(streams_.memory.Fed(stream), 0);
  output_.Take(stream, Chosen(41));
  const Answer answer = Ended();
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_THAT(answer.tokens, ElementsAre(40, 41));
  EXPECT_EQ(answer.tag, 7u);
}

TEST_F(OutputProcessorTest, AStopTokenIsTheLastUnlessItIsForced) {
  AnswerRequest request = Ask(1, 9);
  request.stop_tokens = {50};
  output_.Take(Begin(request), Chosen(50));
  EXPECT_EQ(Ended().finish, FinishReason::kStopToken);
  request.forced = {50, 51};
  Stream& scored = Begin(request);
  output_.Take(scored, Chosen(50));
  output_.Take(scored, Chosen(51));
  const Answer answer = Ended();
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_THAT(answer.tokens, ElementsAre(50, 51));
}

TEST_F(OutputProcessorTest, AStopStringMayLieInSeveralTokens) {
  AnswerRequest request = Ask(1, 9);
  request.stop_strings = {"bc"};
  Stream& stream = Begin(request);
  const std::vector<TokenId> tokens = SharedModel()->text()->Encode("xbcd", false, false);
  for (const TokenId token : tokens) {
    if (streams_.running().writing() == 0) break;
    output_.Take(stream, Chosen(token));
  }
  const Answer answer = Ended();
  EXPECT_EQ(answer.finish, FinishReason::kStopString);
  EXPECT_EQ(answer.text, "x");
}

TEST_F(OutputProcessorTest, WithoutATokenTheAnswerFails) {
  Stream& stream = Begin(Ask(1, 9));
  output_.Take(stream, Chosen(40));
  output_.Take(stream, Chosen(kNoToken));
  const Answer answer = Ended();
  EXPECT_EQ(answer.finish, FinishReason::kError);
  EXPECT_THAT(answer.error, HasSubstr("after 1 tokens of the answer"));
  EXPECT_THAT(answer.tokens, ElementsAre(40));
}

TEST_F(OutputProcessorTest, TheContextEndsAnAnswer) {
  Stream& stream = Begin(Ask(1, 100), testing_support::kContext - 3);
  for (const TokenId token : {1, 2, 3}) {
    ASSERT_EQ(streams_.running().writing(), 1);
    output_.Take(stream, Chosen(token));
  }
  EXPECT_EQ(Ended().finish, FinishReason::kLength);
}

TEST_F(OutputProcessorTest, AStepsTokensGoToTheirReaders) {
  struct Choices : PendingChoices {
    const std::vector<TokenChoice>& Take() override { return tokens; }
    std::vector<TokenChoice> tokens = {Chosen(40), Chosen(41)};
  };
  Stream& stream = Begin(Ask(1, 9));
  LaunchedStep step;
  step.choices = std::make_unique<Choices>();
  step.readers = {StreamId(), stream.id};
  step.rows = {0, 1};
  step.branches = {3, 1};
  stream.tokens_in_flight = 1;
  output_.TakeStep(step);
  EXPECT_EQ(stream.tokens_in_flight, 0);
  EXPECT_THAT(stream.answer.tokens, ElementsAre(41));
  Receipt receipt;
  output_.Report(receipt);
  EXPECT_EQ(receipt.dropped_rows, 3);
}

}  // namespace

}  // namespace banyan
