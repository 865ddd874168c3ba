// Streams in memory, without steps: nothing is computed, so keys are marked as filled by hand.
#include <gtest/gtest.h>
#include <array>

#include "engine/memory/stream_memory.h"
#include "engine/request/stream.h"
#include "support/streams_in_memory.h"

namespace banyan {

namespace {

using testing_support::Ask;
using testing_support::NewPages;
using testing_support::Prompt;
using testing_support::SharedModel;
using testing_support::Tokens;

class StreamMemoryTest : public ::testing::Test {
 protected:
  // A context of 64 tokens with questions of 100: too long to be one segment with their answers.
  static std::vector<std::unique_ptr<Stream>> Questions(int count, int max_new) {
    PromptSegment root = Prompt(Tokens(64, 1), {});
    for (int i = 0; i < count; ++i) {
      root.below.push_back(Prompt(Tokens(100, static_cast<std::uint32_t>(10 + i)),
                                  {Ask(static_cast<std::uint64_t>(i), max_new)}));
    }
    return StreamsOf(root);
  }

  static std::vector<std::unique_ptr<Stream>> StreamsOf(PromptSegment& root) {
    std::shared_ptr<RequestTree> tree = MakeRequestTree(root, /*sequential=*/false);
    tree->id = 1;
    WaitingQueue line;
    line.Add(tree);
    std::vector<std::unique_ptr<Stream>> streams;
    while (!line.empty()) streams.push_back(line.Take());
    return streams;
  }

  // As if a step had computed all that is missing.
  static void Compute(StreamMemory& memory, const Stream& stream) {
    for (const Branch& branch : stream.branches) {
      for (const NodeId node : memory.forest().Path(branch.tail)) {
        memory.MarkFilled(node, memory.Tokens(node));
      }
    }
  }
};

TEST_F(StreamMemoryTest, EqualBeginningsAreHeldOnce) {
  const std::shared_ptr<KvMemory> pages = NewPages(64);
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kFlat}) {
    EngineOptions options;
    options.strategy = strategy;
    StreamMemory memory(SharedModel()->parts(), *pages, options);
    const auto streams = Questions(2, 8);
    for (const auto& stream : streams) ASSERT_TRUE(memory.Allocate(*stream, {}));
    // 4 pages for the context, 7 for each question, 1 for each answer.
    const int contexts = strategy == Strategy::kFlat ? 2 : 1;
    EXPECT_EQ(memory.cache().available_pages(), 64 - 4 * contexts - 2 * (7 + 1));
    for (const auto& stream : streams) memory.Release(*stream);
    EXPECT_EQ(memory.cache().available_pages(), 64);
    memory.CheckInvariants();
  }
}

// What only the first level shares: every stream has its own copy of what is below, and leaves
// none.
TEST_F(StreamMemoryTest, BelowTheSharedLevelsEveryStreamHasItsOwn) {
  PromptSegment root = Prompt(Tokens(32, 1), {});
  root.below.push_back(Prompt(Tokens(64, 2), {}));
  for (std::uint32_t i = 0; i < 3; ++i) {
    root.below[0].below.push_back(Prompt(Tokens(100, 10 + i), {Ask(i, 8)}));
  }
  for (const auto& [levels, instructions, contexts] :
       {std::array{0, 1, 1}, std::array{1, 1, 3}, std::array{2, 1, 1}}) {
    SCOPED_TRACE(levels);
    const std::shared_ptr<KvMemory> pages = NewPages(64);
    EngineOptions options;
    options.strategy = Strategy::kTree;
    options.share_levels = levels;
    StreamMemory memory(SharedModel()->parts(), *pages, options);
    PromptSegment request = root;
    const auto streams = StreamsOf(request);
    for (const auto& stream : streams) ASSERT_TRUE(memory.Allocate(*stream, {}));
    EXPECT_EQ(memory.cache().available_pages(), 64 - 2 * instructions - 4 * contexts - 3 * (7 + 1));
    for (const auto& stream : streams) Compute(memory, *stream);
    for (const auto& stream : streams) memory.Release(*stream);
    EXPECT_EQ(memory.cache().available_pages(), 64);
    // Of what stays cached, the private part is gone.
    const size_t stay = levels == 0 ? 1 + 1 + 3 : static_cast<size_t>(levels);
    EXPECT_EQ(memory.forest().size(), stay);
    memory.CheckInvariants();
  }
}

// Parallel Prompting: P questions share one copy of their prompt, N / P copies are stored.
TEST_F(StreamMemoryTest, PrivateStacksHaveACopyEach) {
  for (const auto& [questions_per_stack, copies] :
       {std::array{1, 4}, std::array{2, 2}, std::array{3, 2}, std::array{4, 1}}) {
    for (const bool apart : {false, true}) {
      SCOPED_TRACE(questions_per_stack);
      const std::shared_ptr<KvMemory> pages = NewPages(64);
      EngineOptions options;
      options.strategy = Strategy::kStacked;
      options.private_stacks = apart;
      StreamMemory memory(SharedModel()->parts(), *pages, options);
      const auto streams = Questions(4, 8);
      for (size_t i = 0; i < 4; ++i) {
        streams[i]->request->streams[i].stack = static_cast<int>(i) / questions_per_stack;
      }
      for (const auto& stream : streams) ASSERT_TRUE(memory.Allocate(*stream, {}));
      const int contexts = apart ? copies : 1;
      EXPECT_EQ(memory.cache().available_pages(), 64 - 4 * contexts - 4 * (7 + 1));
      memory.CheckInvariants();
    }
  }
}

TEST_F(StreamMemoryTest, WithoutRoomNothingChanges) {
  const std::shared_ptr<KvMemory> pages = NewPages(20);  // two streams take 4 + 2 * (7 + 1)
  StreamMemory memory(SharedModel()->parts(), *pages, {});
  const auto streams = Questions(2, 8);
  ASSERT_TRUE(memory.Allocate(*streams[0], {}));
  const size_t nodes = memory.forest().size();
  EXPECT_FALSE(memory.Allocate(*streams[1], {.spare = 1}));
  EXPECT_TRUE(streams[1]->branches.empty());
  EXPECT_EQ(memory.forest().size(), nodes);
  EXPECT_EQ(memory.cache().available_pages(), 20 - 12);
  memory.CheckInvariants();
  EXPECT_TRUE(memory.Allocate(*streams[1], {}));
  EXPECT_EQ(memory.cache().available_pages(), 0);
}

TEST_F(StreamMemoryTest, APreemptedStreamReturnsWithItsTokensAndAllItsRoom) {
  const std::shared_ptr<KvMemory> pages = NewPages(64);
  StreamMemory memory(SharedModel()->parts(), *pages, {});
  const auto streams = Questions(1, 40);
  Stream& stream = *streams[0];
  ASSERT_TRUE(memory.Allocate(stream, {}));
  EXPECT_EQ(memory.Written(stream), 0);
  for (const TokenId token : {7, 8, 9}) {
    stream.answer.tokens.push_back(token);
    memory.Append(stream, token);
  }
  Compute(memory, stream);
  EXPECT_EQ(memory.Written(stream), 3);
  EXPECT_EQ(memory.Fed(stream), 3);
  memory.Preempt(stream);
  EXPECT_EQ(stream.written, (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(memory.cache().available_pages(), 64);  // the prompt is cached, and nobody holds it
  EXPECT_LT(memory.cache().pool().free(), 64);

  stream.preempted = true;
  ASSERT_TRUE(memory.Allocate(stream, {.spare = 1000}));  // which does not concern it
  EXPECT_TRUE(stream.written.empty());
  EXPECT_EQ(memory.Written(stream), 3);
  EXPECT_EQ(memory.Fed(stream), 0);                          // to be computed again
  EXPECT_EQ(memory.cache().available_pages(), 64 - 11 - 3);  // 39 keys of the answer
}

TEST_F(StreamMemoryTest, TailsGrowWhilePagesLast) {
  const std::shared_ptr<KvMemory> pages = NewPages(13);  // 11 for the prompt
  StreamMemory memory(SharedModel()->parts(), *pages, {});
  const auto streams = Questions(1, 100);
  ASSERT_TRUE(memory.Allocate(*streams[0], {}));
  int tokens = 0;
  while (memory.Grow(*streams[0])) {
    memory.Append(*streams[0], 1);
    ++tokens;
  }
  EXPECT_EQ(tokens, 2 * kPageTokens + 1);  // the last one has no key
  EXPECT_FALSE(memory.ContextFull(*streams[0]));
  EXPECT_TRUE(memory.ContextFull(*streams[0], testing_support::kContext - 164 - tokens));
}

}  // namespace

}  // namespace banyan
