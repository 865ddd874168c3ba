// Whose turn it is, and what a row sees. The bits are skeleton_test.cc's business.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/schedule/skeleton.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

constexpr int kMany = 1000;

// Three values of a template whose pieces are too long to be one segment with them.
class SkeletonScheduleTest : public ::testing::Test {
 protected:
  SkeletonScheduleTest() {
    PromptSegment root = Prompt(Tokens(70, 1), {Ask(0, 8)});
    root.skeleton = true;
    root.below.push_back(Prompt(Tokens(70, 2), {Ask(1, 8)}));
    root.below[0].below.push_back(Prompt(Tokens(70, 3), {Ask(2, 8)}));
    root.below[0].first_position = 80;
    root.below[0].below[0].first_position = 160;
    streams_.Submit(root, 1);
    streams_.admission.Admit();
  }

  // As if a step had computed the turns' rows and a token had been chosen from each logit.
  void Feed(const std::vector<SkeletonSchedule::Advance>& turns) {
    for (const SkeletonSchedule::Advance& turn : turns) {
      Stream& value = streams_.running().at(turn.stream);
      const NodeRows row = skeletons_.RowOf(value, value.lead());
      streams_.memory.MarkFilled(row.node, row.first_key + row.count);
      if (turn.logits) streams_.Write(value);
    }
  }
  std::vector<SkeletonSchedule::Advance> Turns(int rows_left = kMany) {
    const auto turns = skeletons_.NextRows(*streams_.at(0).skeleton, rows_left, kMany);
    return {turns.begin(), turns.end()};
  }
  std::vector<StreamId> Whose(const std::vector<SkeletonSchedule::Advance>& turns) {
    std::vector<StreamId> streams;
    for (const SkeletonSchedule::Advance& turn : turns) streams.push_back(turn.stream);
    return streams;
  }
  void BeginAll() {
    for (size_t i = 0; i < 3; ++i) {
      streams_.ComputePrompt(streams_.at(i));
      streams_.Write(streams_.at(i));
    }
  }

  StreamsInMemory streams_{100};
  SkeletonSchedule skeletons_{streams_.running(), streams_.memory};
};

TEST_F(SkeletonScheduleTest, ValuesAdvanceTogetherOrFromTheFirstOn) {
  EXPECT_TRUE(Turns().empty());  // their pieces are not computed
  BeginAll();
  const StreamId a = streams_.at(0).id, b = streams_.at(1).id, c = streams_.at(2).id;
  std::vector<SkeletonSchedule::Advance> turns = Turns(2);
  EXPECT_THAT(Whose(turns), ElementsAre(a, b));
  Feed(turns);
  turns = Turns();  // the first two wait for the last
  EXPECT_THAT(Whose(turns), ElementsAre(c));
  Feed(turns);
  EXPECT_THAT(Whose(Turns()), ElementsAre(a, b, c));
}

TEST_F(SkeletonScheduleTest, AValueThatEndedIsNotWaitedFor) {
  BeginAll();
  streams_.events.AddEnds(streams_.at(1), FinishReason::kLength, "");
  streams_.admission.Retire(streams_.at(1));
  const StreamId a = streams_.at(0).id, c = streams_.at(2).id;
  for (int i = 0; i < 3; ++i) {
    const std::vector<SkeletonSchedule::Advance> turns = Turns();
    EXPECT_THAT(Whose(turns), ElementsAre(a, c));
    Feed(turns);
  }
}

TEST_F(SkeletonScheduleTest, ARowSeesTheValuesAboveIt) {
  BeginAll();
  const std::vector<StreamId> extended = Whose(Turns());
  const std::span<const NodeChain> chains = skeletons_.Chains(extended);
  ASSERT_EQ(chains.size(), 1u);
  const Branch &a = streams_.at(0).lead(), &b = streams_.at(1).lead(), &c = streams_.at(2).lead();
  EXPECT_THAT(chains[0], ElementsAre(a.tail, b.leaf, b.tail, c.leaf, c.tail));
  // Without a row of the last one, nothing below the second is of interest.
  EXPECT_THAT(skeletons_.Chains(std::vector{extended[0], extended[1]})[0],
              ElementsAre(a.tail, b.leaf, b.tail));
}

}  // namespace

}  // namespace banyan
