// Beginnings that are copied: when, how many, and that answers have the bits that they have alone.
#include <gtest/gtest.h>

#include "engine/memory/prefix_copies.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/skeleton.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ExpectSameAnswers;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::SharedModel;
using testing_support::StreamsInMemory;
using testing_support::Tokens;

// `common` tokens that all have, then tokens of its own.
std::vector<TokenId> RandomText(int common, int own, std::uint32_t seed) {
  std::vector<TokenId> tokens = Tokens(common, 77);
  const std::vector<TokenId> rest = Tokens(own, seed);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  tokens[static_cast<size_t>(common)] = static_cast<TokenId>(seed % 250);  // surely another
  return tokens;
}

class PrefixCopiesTest : public ::testing::Test {
 protected:
  NodeId LeafOf(size_t place) { return streams_.at(place).lead().leaf; }
  int Filled(size_t place) { return streams_.memory.cache().filled(LeafOf(place)); }
  void Submit(std::vector<TokenId> tokens, RequestId id) {
    streams_.Submit(Prompt(std::move(tokens), {Ask(id, 4)}), id);
  }

  StreamsInMemory streams_{100};
};

TEST_F(PrefixCopiesTest, TheYoungerWaitsAndGetsACopy) {
  Submit(RandomText(100, 20, 1), 1);
  Submit(RandomText(100, 30, 2), 2);
  streams_.admission.Admit();
  streams_.memory.CopyPrefixes();
  const auto awaited = streams_.memory.Awaited(LeafOf(1));
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->node, LeafOf(0));
  EXPECT_EQ(awaited->tokens, 100);
  EXPECT_FALSE(streams_.memory.Awaited(LeafOf(0)));
  streams_.memory.MarkFilled(LeafOf(0), 99);
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(Filled(1), 0);
  streams_.memory.MarkFilled(LeafOf(0), 100);
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(Filled(1), 100);
  EXPECT_FALSE(streams_.memory.Awaited(LeafOf(1)));
  streams_.memory.CheckInvariants();
}

TEST_F(PrefixCopiesTest, FewTokensAreComputedAgain) {
  Submit(RandomText(kLeastCopiedTokens - 1, 20, 1), 1);
  Submit(RandomText(kLeastCopiedTokens - 1, 20, 2), 2);
  streams_.admission.Admit();
  EXPECT_FALSE(streams_.memory.Awaited(LeafOf(1)));
}

// Who wants a beginning computes it in its own turn, and nothing more of that prompt.
TEST_F(PrefixCopiesTest, TheBeginningComesFirst) {
  Submit(RandomText(60, 60, 2), 2);
  streams_.admission.Admit();
  streams_.Submit(Prompt(RandomText(60, 30, 1), {Ask(1, 4)}), 1, /*priority=*/1);
  streams_.admission.Admit();
  SkeletonSchedule skeletons{streams_.running(), streams_.memory};
  Scheduler scheduler({.logit_rows = 8, .mixed_rows = 64, .fair = true}, streams_.admission,
                      streams_.memory, skeletons);
  EXPECT_EQ(streams_.at(0).request->id, 1);
  const StepDecision& first = scheduler.Decide(60);
  ASSERT_EQ(first.prefill.size(), 1u);
  EXPECT_EQ(first.prefill[0].node, LeafOf(1));
  EXPECT_EQ(first.prefill[0].count, 60);
  streams_.memory.MarkFilled(LeafOf(1), 60);
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(scheduler.Decide(200).rows(), 30 + 60);
}

// One who has more in common with a third that waits itself does not wait for that, unless it is
// worth a page.
TEST_F(PrefixCopiesTest, NoQueuesOfCopies) {
  Submit(RandomText(40, 60, 1), 1);
  std::vector<TokenId> second = RandomText(40, 60, 2), third = second, fourth = second;
  third[45] = third[45] == 1 ? 2 : 1;
  fourth[70] = fourth[70] == 1 ? 2 : 1;
  Submit(second, 2);
  Submit(third, 3);
  Submit(fourth, 4);
  streams_.admission.Admit();
  // Computing the first one's beginning is what all of them wait for now.
  for (const size_t place : {1u, 2u, 3u}) {
    const auto awaited = streams_.memory.Awaited(LeafOf(place));
    ASSERT_TRUE(awaited);
    EXPECT_EQ(awaited->node, LeafOf(0));
    EXPECT_EQ(awaited->tokens, 40);
  }
  streams_.memory.MarkFilled(LeafOf(0), 40);
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(Filled(1), 40);
  EXPECT_EQ(Filled(2), 40);  // not 45
  EXPECT_EQ(Filled(3), 0);   // 30 tokens more are to come
  ASSERT_TRUE(streams_.memory.Awaited(LeafOf(3)));
  EXPECT_EQ(streams_.memory.Awaited(LeafOf(3))->node, LeafOf(1));
  EXPECT_EQ(streams_.memory.Awaited(LeafOf(3))->tokens, 70);
}

TEST_F(PrefixCopiesTest, WhoLeavesIsNotWaitedFor) {
  Submit(RandomText(100, 20, 1), 1);
  Submit(RandomText(100, 30, 2), 2);
  Submit(RandomText(100, 40, 3), 3);
  streams_.admission.Admit();
  streams_.memory.MarkFilled(LeafOf(0), 50);
  streams_.admission.End(streams_.at(0).request, 0, FinishReason::kCancelled, "");
  streams_.admission.ForgetRemoved();
  // What it had is there for both.
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(Filled(0), 50);
  EXPECT_EQ(Filled(1), 50);
  EXPECT_FALSE(streams_.memory.Awaited(LeafOf(1)));
  streams_.memory.CheckInvariants();
}

TEST_F(PrefixCopiesTest, DividedNodesKeepWhatTheyAwait) {
  const std::vector<TokenId> first = RandomText(100, 120, 1), second = RandomText(100, 120, 2);
  Submit(first, 1);
  Submit(second, 2);
  std::vector<TokenId> third = second, fourth = first;  // each divides one after its first cut
  third[150] = third[150] == 1 ? 2 : 1;
  fourth[150] = fourth[150] == 1 ? 2 : 1;
  Submit(third, 3);
  Submit(fourth, 4);
  streams_.admission.Admit();
  const Forest& forest = streams_.memory.forest();
  const NodeId upper_first = forest.at(LeafOf(0)).parent,
               upper_second = forest.at(LeafOf(1)).parent;
  ASSERT_TRUE(upper_first.valid() && upper_second.valid());
  ASSERT_TRUE(streams_.memory.Awaited(upper_second));
  EXPECT_EQ(streams_.memory.Awaited(upper_second)->node, upper_first);
  EXPECT_FALSE(streams_.memory.Awaited(LeafOf(1)));
  streams_.memory.MarkFilled(upper_first, 128);
  streams_.memory.CopyPrefixes();
  EXPECT_EQ(streams_.memory.cache().filled(upper_second), 100);
  streams_.memory.CheckInvariants();
}

TEST(PrefixCopiesOnDevices, AStepMoreMustBeWorthIt) {
  Forest forest(kCutKeys, Digest{});
  KvCache cache(forest, 100);
  std::vector<NodeSplit> splits;
  std::vector<PageCopy> copies;
  for (const auto& [worth, waits] : {std::pair(40, true), std::pair(41, false)}) {
    PrefixCopies prefix_copies(forest, cache, worth);
    const std::uint32_t seed = static_cast<std::uint32_t>(worth) * 3;
    std::vector<NodeId> nodes;
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::vector<TokenId> tokens = RandomText(40, 20, seed + i);
      const NodeId above = forest.AddSegment(
          NodeId(), {.tokens = tokens, .first_position = {}, .scope = seed}, splits);
      nodes.push_back(above);
      cache.Pin(above);
      ASSERT_TRUE(cache.Reserve(above, 60));
      prefix_copies.Added(above);
    }
    prefix_copies.Take([](NodeId) { return false; }, copies);
    EXPECT_EQ(prefix_copies.Awaited(nodes[1]).has_value(), waits);
  }
}

// What left is not waited for, and what came since is found.
TEST(PrefixCopiesAlone, TheBestThatIsThereIsCopied) {
  Forest forest(kCutKeys, Digest{});
  KvCache cache(forest, 100);
  PrefixCopies prefix_copies(forest, cache);
  std::vector<NodeSplit> splits;
  std::vector<std::vector<TokenId>> texts = {RandomText(40, 60, 1), RandomText(40, 60, 2),
                                             RandomText(40, 60, 2)};
  texts[2][80] = texts[2][80] == 1 ? 2 : 1;
  std::vector<NodeId> nodes;
  for (const std::vector<TokenId>& tokens : texts) {
    nodes.push_back(forest.AddSegment(NodeId(), {.tokens = tokens, .first_position = {}}, splits));
    cache.Pin(nodes.back());
    ASSERT_TRUE(cache.Reserve(nodes.back(), 100));
    prefix_copies.Added(nodes.back());
  }
  const auto loads = [](NodeId) { return false; };
  cache.MarkFilled(nodes[0], 100);
  cache.Unpin(nodes[1]);  // it is gone, and what the third awaits with it
  EXPECT_FALSE(prefix_copies.Awaited(nodes[2]));
  cache.MarkFilled(nodes[2], 100);
  nodes.push_back(forest.AddSegment(NodeId(), {.tokens = texts[1], .first_position = {}}, splits));
  cache.Pin(nodes.back());
  ASSERT_TRUE(cache.Reserve(nodes.back(), 100));
  prefix_copies.Added(nodes.back());
  std::vector<PageCopy> copies;
  prefix_copies.Take(loads, copies);
  EXPECT_EQ(copies.size(), 5u);  // 80 tokens of the third, not 40 of the first
  EXPECT_EQ(cache.filled(nodes[3]), 80);
  copies.clear();
  prefix_copies.Take(loads, copies);
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(prefix_copies.copied_tokens(), 80);
}

// Prompts that part at any token, and end at any token of one another: each has the bits that it
// has alone, and what all have in common is computed once.
TEST(CopiedBeginnings, HaveTheBitsOfComputedOnes) {
  std::vector<PromptSegment> requests;
  std::uint64_t tag = 0;
  for (int common = 1; common < 150; common += common < 20 ? 1 : 7) {
    requests.push_back(
        Prompt(RandomText(common, 1 + common % 9, static_cast<std::uint32_t>(100 + common)),
               {Ask(tag++, 3)}));
    requests.push_back(Prompt(Tokens(common, 77), {Ask(tag++, 3)}));
  }
  EngineOptions alone;
  alone.strategy = Strategy::kFlat;
  alone.one_by_one = true;
  Engine one_by_one(SharedModel(), alone);
  const AnswersByTag expected = RunAll(one_by_one, requests);
  EXPECT_EQ(one_by_one.receipt().copied_tokens, 0);
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kPaged, Strategy::kStacked}) {
    for (const int rows : {7, 64, 512}) {
      for (const int between : {-1, 2}) {
        EngineOptions options;
        options.strategy = strategy;
        options.batch_rows = rows;
        Engine engine(SharedModel(), options);
        ExpectSameAnswers(expected, RunAll(engine, requests, between));
        EXPECT_GT(engine.receipt().copied_tokens, 1000);
      }
    }
  }
}

TEST(CopiedBeginnings, AreCountedOnce) {
  std::vector<PromptSegment> requests;
  for (std::uint32_t i = 0; i < 20; ++i) {
    requests.push_back(Prompt(RandomText(120, 30, 200 + i), {Ask(i, 2)}));
  }
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kFlat}) {
    EngineOptions options;
    options.strategy = strategy;
    Engine engine(SharedModel(), options);
    for (const PromptSegment& request : requests) engine.Submit(request);
    const std::string text = engine.Explain();
    while (engine.Step()) {
    }
    const Receipt receipt = engine.receipt();
    EXPECT_EQ(receipt.prompt_tokens, 20 * 150);
    const int copied = strategy == Strategy::kFlat ? 0 : 19 * 120;
    EXPECT_EQ(receipt.copied_tokens, copied);
    EXPECT_EQ(receipt.prefilled_tokens, 20 * 150 - copied);
    const std::string said = copied == 0 ? "3000 stored and computed"
                                         : "3000 stored, 720 of them computed and 2280 copied";
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }
}

}  // namespace

}  // namespace banyan
