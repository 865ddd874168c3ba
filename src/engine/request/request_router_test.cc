#include "engine/request/request_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace banyan {
namespace {

// `text`, then `question`: two segments, one answer.
std::shared_ptr<RequestTree> Request(RequestId id, const std::vector<TokenId>& text,
                                     const std::vector<TokenId>& question, int priority = 0) {
  auto request = std::make_shared<RequestTree>();
  request->id = id;
  request->priority = priority;
  request->segments.resize(2);
  request->segments[0].tokens = text;
  request->segments[1].parent = 0;
  request->segments[1].tokens = question;
  request->tokens = static_cast<std::int64_t>(text.size() + question.size());
  request->answers.resize(1);
  request->answers[0].max_new = 4;
  return request;
}

std::vector<TokenId> Text(int tokens, int seed) {
  std::vector<TokenId> text;
  for (int i = 0; i < tokens; ++i) text.push_back(seed * 1000 + i);
  return text;
}

TEST(KnownPrefixes, BlocksAreThoseOfThePathHoweverItIsDivided) {
  const std::vector<TokenId> whole = Text(200, 1);
  const std::vector<TokenId> head(whole.begin(), whole.begin() + 90);
  const std::vector<TokenId> rest(whole.begin() + 90, whole.end());
  const auto blocks = KnownPrefixes::BlocksOf(*Request(1, head, rest));
  EXPECT_EQ(blocks.size(), 3u);
  EXPECT_EQ(KnownPrefixes::BlocksOf(*Request(2, whole, {7})), blocks);
  std::vector<TokenId> other = whole;
  other[100] = 5;  // in the second block
  const auto different = KnownPrefixes::BlocksOf(*Request(3, other, {7}));
  EXPECT_EQ(different[0], blocks[0]);
  EXPECT_NE(different[1], blocks[1]);
  EXPECT_NE(different[2], blocks[2]);
  const auto tenant = Request(4, whole, {7});
  tenant->scope = 1;
  EXPECT_NE(KnownPrefixes::BlocksOf(*tenant)[0], blocks[0]);
  const auto adapted = Request(5, whole, {7});
  adapted->variant = 1;
  EXPECT_NE(KnownPrefixes::BlocksOf(*adapted)[0], blocks[0]);
}

TEST(KnownPrefixes, ForgetsWhatWasNotAskedAboutForLong) {
  KnownPrefixes prefixes;
  prefixes.Note({1, 2}, 3);
  EXPECT_EQ(prefixes.DevicesWith(1), 8u);
  std::vector<std::uint64_t> many;
  for (std::uint64_t i = 100; i < 100 + (1 << 16); ++i) many.push_back(i);
  prefixes.Note(many, 0);
  EXPECT_EQ(prefixes.DevicesWith(2), 8u);  // of the older half
  prefixes.Note({2}, 0);                   // young again
  for (std::uint64_t& block : many) block += 1 << 20;
  prefixes.Note(many, 0);
  EXPECT_EQ(prefixes.DevicesWith(1), 0u);
  EXPECT_EQ(prefixes.DevicesWith(2), 9u);
}

TEST(RequestRouter, DocumentsGoWhereThereIsLeastWork) {
  RequestRouter router(3);
  std::vector<std::int64_t> requests(3);
  for (int i = 0; i < 30; ++i) {
    ++requests[router.Add(Request(static_cast<RequestId>(i + 1), Text(100, i), {1, 2}))];
  }
  EXPECT_EQ(requests, (std::vector<std::int64_t>{10, 10, 10}));
  // A large one weighs as much as many small ones.
  const size_t large = router.Add(Request(40, Text(1000, 40), {1}));
  for (int i = 50; i < 58; ++i) {
    EXPECT_NE(router.Add(Request(static_cast<RequestId>(i), Text(100, i), {1})), large);
  }
}

TEST(RequestRouter, QuestionsOfOneDocumentGoToOneDevice) {
  RequestRouter router(2);
  RequestId id = 0;
  for (int document = 0; document < 10; ++document) {
    const size_t device = router.Add(Request(++id, Text(640, document), {1}));
    for (int question = 2; question < 9; ++question) {
      EXPECT_EQ(router.Add(Request(++id, Text(640, document), {question})), device);
    }
  }
  EXPECT_NEAR(static_cast<double>(router.work(0)), static_cast<double>(router.work(1)), 6000.0);
  // A document that all ask about is computed by both at last.
  std::vector<int> of_device(2);
  for (int question = 100; question < 2100; ++question) {
    ++of_device[router.Add(Request(++id, Text(640, 99), {question}))];
  }
  EXPECT_GT(std::min(of_device[0], of_device[1]), 500);
}

TEST(RequestRouter, ADeviceWithRoomTakesTheLatestOfOneThatHasNone) {
  RequestRouter router(2);
  for (RequestId id = 1; id <= 6; ++id) {
    EXPECT_EQ(router.Add(Request(id, Text(64, static_cast<int>(id)), {1})), (id - 1) % 2);
  }
  EXPECT_EQ(router.Take(0)->id, 1u);
  EXPECT_EQ(router.Take(0)->id, 3u);
  EXPECT_EQ(router.Take(0)->id, 5u);
  EXPECT_FALSE(router.Has(0));  // the other may still have room for its own
  EXPECT_EQ(router.Take(0), nullptr);
  router.SetFull(1, true);
  EXPECT_TRUE(router.Has(0));
  EXPECT_EQ(router.Take(0, /*above=*/0), nullptr);
  const auto taken = router.Take(0);
  EXPECT_EQ(taken->id, 6u);
  EXPECT_EQ(router.stolen(0), 1);
  EXPECT_EQ(router.waiting(), 2u);
  EXPECT_EQ(router.Remove(4).first->id, 4u);
  EXPECT_EQ(router.Remove(4).first, nullptr);
  EXPECT_EQ(router.Take(1)->id, 2u);
  EXPECT_EQ(router.waiting(), 0u);
}

TEST(RequestRouter, WorkIsThatOfRequestsWhichAreNotOver) {
  RequestRouter router(2);
  router.Add(Request(1, Text(64, 1), {1, 2}));
  router.Add(Request(2, Text(64, 2), {1, 2}));
  EXPECT_EQ(router.work(0), 70);
  EXPECT_EQ(router.work(1), 70);
  router.SetFull(0, true);
  auto second = router.Take(1);
  auto first = router.Take(1);
  EXPECT_EQ(first->id, 1u);
  EXPECT_EQ(router.work(0), 0);
  EXPECT_EQ(router.work(1), 140);
  first.reset();
  EXPECT_EQ(router.work(1), 70);
  second.reset();
  EXPECT_EQ(router.work(1), 0);
}

TEST(RequestRouter, HigherPrioritiesComeFirst) {
  RequestRouter router(1);
  router.Add(Request(1, {1}, {2}));
  router.Add(Request(2, {1}, {2}, /*priority=*/-1));
  router.Add(Request(3, {1}, {2}, /*priority=*/1));
  EXPECT_EQ(router.Take(0, /*above=*/1), nullptr);
  EXPECT_EQ(router.Take(0, /*above=*/0)->id, 3u);
  std::vector<std::shared_ptr<RequestTree>> rest;
  router.TakeAll(0, rest);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0]->id, 1u);
  EXPECT_EQ(rest[1]->id, 2u);
}

TEST(RequestRouter, OthersTakeTheRequestsOfADeviceThatFailed) {
  RequestRouter router(2);
  router.Add(Request(1, Text(64, 1), {1}));
  router.TakeOut(0);
  EXPECT_EQ(router.Add(Request(2, Text(64, 1), {1})), 1u);
  EXPECT_EQ(router.Take(0), nullptr);
  EXPECT_EQ(router.Take(1)->id, 2u);
  EXPECT_EQ(router.Take(1)->id, 1u);
  router.TakeOut(1);  // all have failed: they are tried again
  EXPECT_EQ(router.Add(Request(3, Text(64, 3), {1})), 0u);
  EXPECT_EQ(router.Take(0)->id, 3u);
}

}  // namespace
}  // namespace banyan
