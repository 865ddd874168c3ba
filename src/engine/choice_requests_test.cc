#include "engine/choice_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/waiting_line.h"

namespace banyan {
namespace {

std::unique_ptr<Stream> StreamWanting(const std::vector<AnswerRequest>& answers) {
  PromptSegment root;
  root.tokens = {1};
  for (const AnswerRequest& answer : answers) {
    root.below.emplace_back().tokens = {2};
    root.below.back().answers.push_back(answer);
  }
  WaitingLine line;
  line.Add(MakeRequestTree(root, /*sequential=*/true));
  return line.Take();
}

bool TakenAtOnce(const AnswerRequest& answer) {
  ChoiceRequests choices;
  const auto stream = StreamWanting({answer});
  choices.Add(*stream, std::vector{0});
  return choices.take_at_once();
}

TEST(ChoiceRequests, GivenTokensAreForcedOneByOneAlsoAhead) {
  AnswerRequest answer;
  answer.forced = {40, 41, 42};
  const auto stream = StreamWanting({answer});
  ChoiceRequests choices;
  choices.Add(*stream, std::vector{3});
  EXPECT_EQ(choices.rows()[0].row, 3);
  EXPECT_EQ(choices.rows()[0].forced, 40);
  stream->answer.tokens = {40};
  stream->tokens_under_way = 1;
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[1].forced, 42);
  stream->tokens_under_way = 2;  // there is no fourth
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[2].forced, -1);
  choices.Clear();
  EXPECT_TRUE(choices.rows().empty());
}

// A draw depends on the token's place in the answer, not on when it is asked for.
TEST(ChoiceRequests, ADrawIsThatOfTheTokensPlace) {
  AnswerRequest answer;
  answer.sampling.temperature = 1.0f;
  const auto stream = StreamWanting({answer});
  ChoiceRequests choices;
  stream->answer.tokens = {5};
  stream->tokens_under_way = 1;
  choices.Add(*stream, std::vector{0});
  stream->answer.tokens = {5, 6};
  stream->tokens_under_way = 0;
  choices.Add(*stream, std::vector{0});
  stream->answer.tokens = {5, 6, 7};
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[0].uniform, choices.rows()[1].uniform);
  EXPECT_NE(choices.rows()[1].uniform, choices.rows()[2].uniform);
}

TEST(ChoiceRequests, SomeTokensMustBeTakenBeforeTheNextStep) {
  AnswerRequest plain;
  EXPECT_FALSE(TakenAtOnce(plain));
  AnswerRequest penalised;
  penalised.sampling.repetition_penalty = 1.5f;
  EXPECT_TRUE(TakenAtOnce(penalised));
  AnswerRequest logits;
  logits.want_logits = true;
  EXPECT_TRUE(TakenAtOnce(logits));
  ChoiceRequests choices;
  const auto in_turn = StreamWanting({plain, plain});
  choices.Add(*in_turn, std::vector{0});
  EXPECT_TRUE(choices.take_at_once());
  choices.Clear();
  EXPECT_FALSE(choices.take_at_once());
}

TEST(ChoiceRequests, LogitsAreThoseOfTheFirstToken) {
  AnswerRequest answer;
  answer.want_logits = true;
  const auto stream = StreamWanting({answer});
  ChoiceRequests choices;
  choices.Add(*stream, std::vector{0});
  EXPECT_TRUE(choices.want_logits());
  choices.Clear();
  stream->state = Stream::State::kDecode;
  choices.Add(*stream, std::vector{0});
  EXPECT_FALSE(choices.want_logits());
}

}  // namespace
}  // namespace banyan
