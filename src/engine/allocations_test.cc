// A step of few streams takes no memory from the heap: whoever works in it keeps what it needs from
// step to step. What grows with the answers (their tokens and pages) grows by doubling. And where
// memory is missing for a moment, answers end with an error, and the engine goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "banyan/engine.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace {
std::atomic<std::int64_t> allocations_so_far{0};

// Allocations of other threads than those that are spared: so many succeed, then so many fail.
std::atomic<std::int64_t> good_ones{0}, bad_ones{0};
thread_local bool spared = false;

bool Fails() {
  if (spared || bad_ones.load(std::memory_order_relaxed) <= 0) return false;
  return good_ones.fetch_sub(1) <= 0 && bad_ones.fetch_sub(1) > 0;
}

void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  allocations_so_far.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
}  // namespace

// Of all threads, and of all tests that are linked with this one. GCC warns of mismatched pairs
// where it puts only one of the two into its callers.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (Fails()) throw std::bad_alloc();
  return Counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  if (Fails()) throw std::bad_alloc();
  const auto bytes = static_cast<std::size_t>(alignment);
  return Counted(std::aligned_alloc(bytes, (size + bytes - 1) / bytes * bytes));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace banyan {
namespace {

constexpr int kStreams = 4;

PromptSegment FewQuestions(int max_new) {
  PromptSegment root;
  for (TokenId token = 0; token < 40; ++token) root.tokens.push_back(token);
  for (int i = 0; i < kStreams; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens = {100 + i, 7, 9};
    AnswerRequest& answer = question.answers.emplace_back();
    answer.tag = static_cast<std::uint64_t>(i);
    answer.max_new = max_new;
  }
  return root;
}

std::shared_ptr<Model> TinyModel(int threads) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model =
      testing_support::WriteTinyGguf({.family = "llama", .seed = 3}, directory.path() / "tiny.gguf")
          .string();
  load.threads = threads;
  return Model::Load(load);
}

// Of every step, until all answers are written.
std::vector<std::int64_t> AllocationsOfSteps(const EngineOptions& options, int max_new) {
  // More threads than cores: some work for the first time in a late step.
  Engine engine(TinyModel(6), options);
  engine.Submit(FewQuestions(max_new));
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<size_t>(2 * max_new));
  for (bool more = true; more;) {
    const std::int64_t before = allocations_so_far;
    more = engine.Step();
    counts.push_back(allocations_so_far - before);
  }
  EXPECT_EQ(engine.receipt().generated_tokens, kStreams * max_new);
  return counts;
}

class StepAllocationsTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(StepsAhead, StepAllocationsTest, ::testing::Values(0, 1));

TEST_P(StepAllocationsTest, NoneInTheSteadyState) {
  EngineOptions options;
  options.steps_ahead = GetParam();
  const std::vector<std::int64_t> counts = AllocationsOfSteps(options, 160);
  ASSERT_GE(counts.size(), 160u);
  // Answers of 97 to 108 tokens: nothing doubles there, and nobody gets a page.
  EXPECT_THAT(std::vector(counts.begin() + 97, counts.begin() + 109), ::testing::Each(0))
      << ::testing::PrintToString(counts);
  // In 10 to 150 tokens of each stream, its tokens, log-probabilities and pages, and what its tail
  // feeds, double at most 5 times; every 16 tokens the step's own list of pages is longer.
  const auto sum = std::accumulate(counts.begin() + 10, counts.begin() + 150, std::int64_t{0});
  EXPECT_LE(sum, kStreams * 4 * 5 + 9);
}

// Whoever makes the steps, the engine's thread or the caller, alone with one thread to compute;
// what else the caller does succeeds.
class AllocationFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { spared = true; }
  void TearDown() override {
    bad_ones = 0;
    spared = false;
  }

  // The answers by tag, the caller being patient.
  std::vector<Answer> Ask() {
    PromptSegment questions = FewQuestions(6);
    questions.below.front().answers.front().stream = true;
    engine_.Submit(std::move(questions));
    std::vector<Answer> answers;
    for (int i = 0; i < 240 && answers.size() < kStreams; ++i) {
      if (makes_steps_) MakeStep();
      for (AnswerEvent& event : engine_.TakeEvents(makes_steps_ ? 0.0 : 0.5)) {
        if (event.ended) answers.push_back(std::move(event.answer));
      }
    }
    std::ranges::sort(answers, {}, &Answer::tag);
    return answers;
  }
  std::vector<std::vector<TokenId>> AskInPeace() {
    std::vector<std::vector<TokenId>> tokens;
    for (Answer& answer : Ask()) tokens.push_back(std::move(answer.tokens));
    return tokens;
  }

  bool MakeStep() {
    spared = false;
    const bool more = engine_.Step();
    spared = true;
    return more;
  }

  // Every allocation in turn, with `more` after it.
  void FailInTurn(std::int64_t more) {
    if (!makes_steps_) engine_.Start();
    const std::vector<std::vector<TokenId>> expected = AskInPeace();
    ASSERT_EQ(expected.size(), static_cast<size_t>(kStreams));
    int failed = 0;
    bool reached = true;
    for (std::int64_t first = 0; reached; ++first) {
      SCOPED_TRACE(first);
      good_ones = first;
      bad_ones = 1 + more;
      const std::vector<Answer> answers = Ask();
      reached = bad_ones.exchange(0) <= more;
      ASSERT_EQ(answers.size(), static_cast<size_t>(kStreams));  // each ended, and once
      for (size_t i = 0; i < answers.size(); ++i) {
        ASSERT_EQ(answers[i].tag, i);
        if (answers[i].finish == FinishReason::kError) {
          ++failed;
          EXPECT_FALSE(answers[i].error.empty());
        } else {
          EXPECT_EQ(answers[i].tokens, expected[i]);
        }
      }
      ASSERT_EQ(AskInPeace(), expected);
      if (makes_steps_) {
        while (MakeStep()) {
        }
      } else {
        ASSERT_TRUE(engine_.WaitUntilIdle(120.0));
      }
      ASSERT_EQ(engine_.waiting(), 0);
      ASSERT_EQ(engine_.running(), 0);
    }
    EXPECT_GT(failed, 0);
  }

  Engine engine_{TinyModel(1), EngineOptions()};
  bool makes_steps_ = false;  // the caller
};

TEST_F(AllocationFaultsTest, OneEndsAnswersAndNotTheEngine) { FailInTurn(0); }

// There is none for the errors, either.
TEST_F(AllocationFaultsTest, SomeInARowAreOutlasted) { FailInTurn(4); }

// Step throws nothing: its caller sees what a caller of the engine's thread does.
TEST_F(AllocationFaultsTest, OneOfACallersStepEndsAnswersAndNotTheEngine) {
  makes_steps_ = true;
  FailInTurn(0);
}

TEST_F(AllocationFaultsTest, SomeInARowOfACallersStepsAreOutlasted) {
  makes_steps_ = true;
  FailInTurn(4);
}

TEST_F(AllocationFaultsTest, NoneAtAllAtTheEndOfTheEngine) {
  engine_.Start();
  engine_.Submit(FewQuestions(200));
  good_ones = 0;
  bad_ones = 50;
  spared = false;
  engine_.Shutdown(Unfinished::kCancel);
  spared = true;
  int ended = 0;
  for (const AnswerEvent& event : engine_.TakeEvents()) ended += event.ended ? 1 : 0;
  EXPECT_EQ(ended, kStreams);
}

}  // namespace
}  // namespace banyan
