#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/schedule/admission_preemption.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

constexpr int kTokens = 100;     // of a prompt: too many to be one segment with the answer
constexpr int kPromptPages = 7;  // which it takes

// So many tokens more for the stream; false: it had to go.
bool WriteMany(StreamsInMemory& streams, Stream& stream, int tokens) {
  for (int i = 0; i < tokens; ++i) {
    streams.Write(stream);
    if (!streams.admission.Grow(stream)) return false;
  }
  return true;
}

TEST(Admission, LetsInByRankAsFarAsPlacesLast) {
  StreamsInMemory streams(100, /*max_streams=*/2);
  streams.Submit(kTokens, 1);
  streams.Submit(kTokens, 2);
  streams.Submit(kTokens, 3, /*priority=*/1);
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(3u, 1u));
  EXPECT_EQ(streams.admission.waiting().streams(), 1);
  streams.events.AddEnds(streams.at(0), FinishReason::kLength, "");
  streams.admission.Retire(streams.at(0));
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u));
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u, 2u));
}

// A stream leaves a page to each of those that run already.
TEST(Admission, LetsInAsFarAsMemoryLasts) {
  StreamsInMemory streams(2 * (kPromptPages + 1) + 1);
  for (RequestId id = 1; id <= 3; ++id) streams.Submit(kTokens, id);
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u, 2u));
  streams.admission.End(streams.at(0).request, 0, FinishReason::kCancelled, "");
  EXPECT_EQ(streams.events.Find(1), nullptr);
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(2u));
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(2u, 3u));
}

TEST(Admission, WhoComesLastGivesItsPagesBackAndWaits) {
  StreamsInMemory streams(2 * (kPromptPages + 1) + 1);
  streams.Submit(kTokens, 1);
  streams.Submit(kTokens, 2);
  streams.admission.Admit();
  Stream& first = streams.at(0);
  EXPECT_TRUE(WriteMany(streams, streams.at(1), 3));
  EXPECT_TRUE(WriteMany(streams, first, 60));
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u));
  EXPECT_EQ(streams.admission.preempted(), 1);
  EXPECT_EQ(streams.admission.waiting().streams(), 1);
  streams.admission.Admit();  // there is no room for it as long as the first one runs
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u));
  streams.admission.End(first.request, 0, FinishReason::kCancelled, "");
  EXPECT_TRUE(streams.RunningRequests().empty());
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(2u));
  EXPECT_TRUE(streams.at(0).preempted);
  EXPECT_EQ(streams.memory.Written(streams.at(0)), 3);
  EXPECT_EQ(streams.events.size(), 1u);
}

TEST(Admission, WhoIsAloneAndFillsAllMemoryEnds) {
  StreamsInMemory streams(kPromptPages + 2);
  streams.Submit(kTokens, 1);
  streams.admission.Admit();
  EXPECT_FALSE(WriteMany(streams, streams.at(0), 150));
  EXPECT_TRUE(streams.RunningRequests().empty());
  const auto taken = streams.events.Take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].second.answer.finish, FinishReason::kError);
  EXPECT_THAT(taken[0].second.answer.error, HasSubstr("was full after 33 tokens"));
}

TEST(Admission, APromptThatNeverFitsEndsWithAnError) {
  StreamsInMemory streams(kPromptPages);
  streams.Submit(kTokens, 1);
  streams.admission.Admit();
  EXPECT_TRUE(streams.RunningRequests().empty());
  EXPECT_TRUE(streams.admission.waiting().empty());
  const auto taken = streams.events.Take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_THAT(taken[0].second.answer.error, HasSubstr("needs 7 pages of 16 tokens"));
}

TEST(Admission, ValuesOfASkeletonComeAndGoTogether) {
  PromptSegment root = Prompt(Tokens(70, 1), {Ask(0, 8)});
  root.skeleton = true;
  root.below.push_back(Prompt(Tokens(70, 2), {Ask(1, 8)}));
  root.below[0].below.push_back(Prompt(Tokens(70, 3), {Ask(2, 8)}));
  root.below[0].first_position = 80;
  root.below[0].below[0].first_position = 160;
  StreamsInMemory streams(100, /*max_streams=*/3);
  streams.Submit(kTokens, 1);
  const auto tree = streams.Submit(root, 2);
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(1u));  // there are two places and not three
  streams.admission.End(streams.at(0).request, 0, FinishReason::kCancelled, "");
  EXPECT_TRUE(streams.RunningRequests().empty());
  streams.admission.Admit();
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(2u, 2u, 2u));
  streams.admission.End(tree, 0, FinishReason::kCancelled, "");
  streams.admission.End(tree, 2, FinishReason::kCancelled, "");
  EXPECT_THAT(streams.RunningRequests(), ElementsAre(2u, 2u, 2u));
  EXPECT_EQ(streams.running().writing(), 1);
  streams.admission.End(tree, 1, FinishReason::kCancelled, "");
  EXPECT_TRUE(streams.RunningRequests().empty());
  EXPECT_EQ(streams.memory.cache().available_pages(), 100);
}

}  // namespace

}  // namespace banyan
