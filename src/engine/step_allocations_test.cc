// A step of few streams takes no memory from the heap: whoever works in it keeps what it needs from
// step to step. What grows with the answers (their tokens and pages) grows by doubling.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "banyan/engine.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace {
std::atomic<std::int64_t> allocations_so_far{0};

void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  allocations_so_far.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
}  // namespace

// Of all threads, and of all tests that are linked with this one. GCC warns of mismatched pairs
// where it puts only one of the two into its callers.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return Counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
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

// Of every step, until all answers are written.
std::vector<std::int64_t> AllocationsOfSteps(const EngineOptions& options, int max_new) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model =
      testing_support::WriteTinyGguf({.family = "llama", .seed = 3}, directory.path() / "tiny.gguf")
          .string();
  load.threads = 6;  // more than cores: some work for the first time in a late step
  Engine engine(Model::Load(load), options);
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

}  // namespace
}  // namespace banyan
