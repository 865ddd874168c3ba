#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/request/answer_events.h"
#include "engine/request/stream.h"

namespace banyan {

namespace {

// One segment whose answers have the tags from 0 on; `in_turn`: one stream writes all of them.
std::shared_ptr<RequestTree> DeliveredRequest(RequestId id, int answers, bool in_turn = false) {
  PromptSegment root;
  root.tokens = {1, 2};
  for (int i = 0; i < answers; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens = {3};
    question.answers.emplace_back().tag = static_cast<std::uint64_t>(i);
    question.answers.back().stream = true;
  }
  std::shared_ptr<RequestTree> tree = MakeRequestTree(root, in_turn);
  tree->id = id;
  tree->first_number = 10 * id;
  tree->submitted = RequestTree::Clock::now();
  return tree;
}

std::vector<std::unique_ptr<Stream>> StreamsOf(const std::shared_ptr<RequestTree>& request) {
  WaitingQueue line;
  line.Add(request);
  std::vector<std::unique_ptr<Stream>> streams;
  while (!line.empty()) streams.push_back(line.Take());
  return streams;
}

void Write(Stream& stream, TokenId token) {
  stream.answer.tokens.push_back(token);
  stream.answer.logprobs.push_back(-1.0f);
}

TEST(AnswerEvents, ARequestIsOpenUntilItsLastStreamEnds) {
  AnswerEvents events;
  const auto first = DeliveredRequest(2, 2), second = DeliveredRequest(1, 1);
  events.Open(first);
  events.Open(second);
  EXPECT_THAT(events.OpenRequests(), ::testing::ElementsAre(second, first));
  const auto streams = StreamsOf(first);
  events.AddEnds(*streams[0], FinishReason::kCancelled, "");
  EXPECT_EQ(events.Find(2), first);
  EXPECT_TRUE(first->streams[0].over);
  events.AddEnds(*streams[1], FinishReason::kError, "why");
  EXPECT_EQ(events.Find(2), nullptr);
  EXPECT_EQ(events.Find(1), second);
  Receipt receipt;
  events.Report(receipt);
  EXPECT_EQ(receipt.streams, 3);
  EXPECT_EQ(receipt.cancelled, 1);
  EXPECT_EQ(receipt.failed, 1);
}

TEST(AnswerEvents, TokensComeBeforeTheEndAndAreTakenOnce) {
  AnswerEvents events;
  const auto request = DeliveredRequest(1, 1);
  events.Open(request);
  const auto streams = StreamsOf(request);
  for (const TokenId token : {7, 8}) {
    Write(*streams[0], token);
    events.AddToken(*streams[0]);
  }
  events.AddEnds(*streams[0], FinishReason::kLength, "");
  EXPECT_EQ(events.size(), 3u);
  const std::vector<AnswerEvents::Delivery> taken = events.Take();
  EXPECT_EQ(events.size(), 0u);
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].second.tokens, std::vector<TokenId>{7});
  EXPECT_EQ(taken[1].second.tokens, std::vector<TokenId>{8});
  EXPECT_FALSE(taken[1].second.ended);
  EXPECT_TRUE(taken[2].second.ended);
  EXPECT_EQ(taken[2].second.answer.tokens, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(taken[2].second.answer.prompt_tokens, 3);
  EXPECT_EQ(taken[2].second.number, 10u);
  EXPECT_EQ(events.tokens(), 2);
}

// An end without the others' is that of one answer: the stream goes on with an empty one.
TEST(AnswerEvents, AnswersInTurnEndOneByOne) {
  AnswerEvents events;
  const auto request = DeliveredRequest(1, 3, /*in_turn=*/true);
  events.Open(request);
  const auto streams = StreamsOf(request);
  ASSERT_EQ(streams.size(), 1u);
  Write(*streams[0], 5);
  events.AddEnd(*streams[0], FinishReason::kLength, "");
  EXPECT_TRUE(streams[0]->answer.tokens.empty());
  EXPECT_EQ(streams[0]->wanted().tag, 1u);
  EXPECT_EQ(events.Find(1), request);
  events.AddEnds(*streams[0], FinishReason::kError, "full");
  EXPECT_EQ(events.Find(1), nullptr);
  const std::vector<AnswerEvents::Delivery> taken = events.Take();
  ASSERT_EQ(taken.size(), 3u);
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].second.tag, i);
    EXPECT_EQ(taken[i].second.answer.tokens.size(), i == 0 ? 1u : 0u);
    EXPECT_EQ(taken[i].second.answer.error, i == 0 ? "" : "full");
  }
}

}  // namespace

}  // namespace banyan
