// Memory on demand, and who waits for whom: streams that give way come back with the same bits, a
// bounded number of times; short requests do not wait for long ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/engine.h"
#include "load/model_parts.h"
#include "support/byte_model.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::Collect;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::SharedModel;
using testing_support::Tokens;

EngineOptions Pages(int pages) {
  EngineOptions options;
  options.kv_memory = PageBytes() * pages;
  return options;
}

// `count` prompts of their own, tags from `first`.
std::vector<PromptSegment> Prompts(int count, int length, int max_new, std::uint64_t first = 0) {
  std::vector<PromptSegment> prompts;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = first + static_cast<std::uint64_t>(i);
    prompts.push_back(
        Prompt(Tokens(length, static_cast<std::uint32_t>(tag) + 50), {Ask(tag, max_new)}));
  }
  return prompts;
}

// What a stream does not use it does not hold: an answer may be allowed far more tokens than there
// is memory for.
TEST(MemoryOnDemand, OnlyWhatIsWrittenCounts) {
  std::vector<PromptSegment> prompts = Prompts(12, 20, 1);
  Engine first(SharedModel(), {});
  const AnswersByTag one = RunAll(first, prompts);
  for (PromptSegment& prompt : prompts) {
    AnswerRequest& answer = prompt.answers[0];
    answer.stop_tokens = {one.at(answer.tag).tokens[0]};
    answer.max_new = 250;  // 16 pages
  }
  Engine engine(SharedModel(), Pages(80));
  const AnswersByTag found = RunAll(engine, prompts);
  for (const auto& [tag, answer] : found) EXPECT_EQ(answer.finish, FinishReason::kStopToken);
  EXPECT_EQ(engine.receipt().preempted, 0);
  EXPECT_LE(engine.receipt().steps, 3);  // all at once
}

TEST(MemoryOnDemand, StreamsThatGaveWayHaveTheSameBits) {
  const std::vector<PromptSegment> prompts = Prompts(10, 20, 100);
  for (const Strategy strategy : {Strategy::kTree, Strategy::kFlat, Strategy::kStacked}) {
    for (const int steps_ahead : {0, 1}) {
      for (const int batch_rows : {7, 512}) {
        EngineOptions ample;
        Engine alone(SharedModel(), ample);
        const AnswersByTag expected = RunAll(alone, prompts);
        EngineOptions options = Pages(30);  // one stream needs 2 + 8
        options.strategy = strategy;
        options.steps_ahead = steps_ahead;
        options.batch_rows = batch_rows;
        Engine engine(SharedModel(), options);
        ExpectSameAnswers(expected, RunAll(engine, prompts));
        const Receipt receipt = engine.receipt();
        EXPECT_EQ(receipt.failed, 0);
        EXPECT_GT(receipt.preempted, 0);
        EXPECT_LE(receipt.preempted, 10);  // each at most once
        EXPECT_GT(receipt.recomputed_tokens, 0);
        EXPECT_LE(receipt.recomputed_tokens, 10 * 99);
        EXPECT_EQ(receipt.kv_bytes_held, 0);
      }
    }
  }
}

// The first in line never gives way, so something always goes on; nor does one twice.
TEST(MemoryOnDemand, TheFirstInLineGoesOn) {
  Engine engine(SharedModel(), Pages(20));
  for (PromptSegment& prompt : Prompts(6, 20, 120)) engine.Submit(std::move(prompt));
  std::vector<std::uint64_t> order;
  while (engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) order.push_back(answer.tag);
  }
  ASSERT_EQ(order.size(), 6u);
  EXPECT_EQ(order.front(), 0u);
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.generated_tokens, 6 * 120);
  EXPECT_LE(receipt.preempted, 5);
  // Rows: every prompt and answer at most twice.
  EXPECT_LE(receipt.prefilled_tokens, 2 * 6 * 20);
  EXPECT_LE(receipt.decode_rows + receipt.recomputed_tokens, 2 * 6 * 119);
}

// What one answer can never get is its own error, at the same place as alone.
TEST(MemoryOnDemand, AnAnswerThatOutgrowsTheBudgetFailsAlone) {
  std::vector<PromptSegment> prompts = Prompts(4, 20, 250);
  prompts[1].answers[0].max_new = 10;
  prompts[3].answers[0].max_new = 30;
  const EngineOptions options = Pages(8);  // 20 + 250 tokens need 18
  AnswersByTag alone;
  for (const PromptSegment& prompt : prompts) {
    Engine engine(SharedModel(), options);
    alone.merge(RunAll(engine, {prompt}));
  }
  EXPECT_EQ(alone.at(0).finish, FinishReason::kError);
  EXPECT_THAT(alone.at(0).error, HasSubstr("8 pages"));
  EXPECT_GT(alone.at(0).tokens.size(), 60u);
  Engine engine(SharedModel(), options);
  const AnswersByTag found = RunAll(engine, prompts);
  ExpectSameAnswers(alone, found);
  EXPECT_EQ(found.at(3).tokens.size(), 30u);
  EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
}

TEST(Priorities, HigherOnesAreServedFirst) {
  EngineOptions options;
  options.max_streams = 1;
  Engine engine(SharedModel(), options);
  const std::vector<PromptSegment> prompts = Prompts(4, 20, 3);
  for (size_t i = 0; i < 4; ++i) {
    SubmitOptions submit;
    submit.priority = i == 2 ? 5 : i == 3 ? -1 : 0;
    engine.Submit(prompts[i], submit);
  }
  std::vector<std::uint64_t> order;
  while (engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) order.push_back(answer.tag);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{2, 0, 1, 3}));
}

// Steps until the answer with `tag` has its first token.
int StepsToFirstToken(Engine& engine, std::uint64_t tag) {
  for (int step = 1; engine.Step(); ++step) {
    for (const AnswerEvent& event : engine.TakeEvents()) {
      if (event.tag == tag) return step;
    }
  }
  return -1;
}

TEST(Fairness, AShortRequestDoesNotWaitForALongPrompt) {
  for (const bool fair : {true, false}) {
    EngineOptions options;
    options.batch_rows = 32;
    options.mixed_rows = fair ? 0 : -1;
    Engine engine(SharedModel(), options);
    engine.Submit(Prompt(Tokens(280, 1), {Ask(0, 2)}));
    engine.Submit(Prompt(Tokens(270, 2), {Ask(1, 2)}));
    AnswerRequest quick = Ask(2, 5);
    quick.stream = true;
    engine.Submit(Prompt(Tokens(20, 3), {quick}));
    const int steps = StepsToFirstToken(engine, 2);
    if (fair) {
      EXPECT_LE(steps, 2);  // 16 rows of each step are for the others, shortest first
    } else {
      EXPECT_GT(steps, 10);  // behind 550 tokens
    }
  }
}

TEST(Fairness, PromptsLeaveRowsToStreamsThatWrite) {
  EngineOptions options;
  options.batch_rows = 256;
  options.mixed_rows = 16;
  Engine engine(SharedModel(), options);
  AnswerRequest writing = Ask(0, 30);
  writing.stream = true;
  engine.Submit(Prompt(Tokens(10, 1), {writing}));
  engine.Step();
  const std::int64_t before = engine.receipt().prefilled_tokens;
  engine.Submit(Prompt(Tokens(200, 2), {Ask(1, 2)}));
  for (int step = 1; step <= 12; ++step) {
    engine.Step();
    EXPECT_EQ(engine.receipt().prefilled_tokens - before, 15 * step);
  }
  EXPECT_GE(engine.TakeEvents().front().tokens.size(), 12u);  // a token in every step
}

TEST(Fairness, WaitsAreMeasured) {
  Engine engine(SharedModel(), {});
  RunAll(engine, Prompts(5, 20, 10));
  const Receipt receipt = engine.receipt();
  EXPECT_GT(receipt.first_token_median, 0.0);
  EXPECT_GE(receipt.first_token_p99, receipt.first_token_median);
  EXPECT_GT(receipt.next_token_median, 0.0);
  EXPECT_GE(receipt.next_token_p99, receipt.next_token_median);
}

}  // namespace
}  // namespace banyan
