// What the engine promises beside exactness: errors that name what was expected and found, bounded
// memory, nothing computed twice. Stops and sampling are in decoding_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "banyan/engine.h"
#include "load/model_parts.h"
#include "support/byte_model.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::Answers;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ErrorMessage;
using testing_support::kContext;
using testing_support::PageBytes;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::RunOne;
using testing_support::SharedModel;
using testing_support::Tokens;

TEST(EngineErrors, NameWhatWasExpectedAndFound) {
  Engine engine(SharedModel(), {});
  const auto refused = [&](ErrorKind kind, const PromptSegment& request) {
    return ErrorMessage(kind, [&] { engine.Submit(request); });
  };
  const std::string high = refused(ErrorKind::kInput, Prompt({1, 260}, {Ask(0, 1)}));
  EXPECT_THAT(high, HasSubstr("260"));
  EXPECT_THAT(high, HasSubstr("0 to 259"));
  EXPECT_THAT(refused(ErrorKind::kInput, Prompt({-1}, {Ask(0, 1)})), HasSubstr("-1"));
  EXPECT_THAT(refused(ErrorKind::kInput, Prompt({}, {Ask(0, 1)})), HasSubstr("empty"));
  const std::string length = refused(ErrorKind::kLimit, Prompt(Tokens(301, 1), {Ask(0, 1)}));
  EXPECT_THAT(length, HasSubstr("301"));
  EXPECT_THAT(length, HasSubstr("300"));
  EXPECT_THAT(refused(ErrorKind::kInput, Prompt({1}, {Ask(0, -2)})), HasSubstr("-2"));
  AnswerRequest forced = Ask(0, 1);
  forced.forced = {300};
  EXPECT_THAT(refused(ErrorKind::kInput, Prompt({1}, {forced})), HasSubstr("300"));
  AnswerRequest empty_stop = Ask(0, 1);
  empty_stop.stop_strings = {""};
  EXPECT_THAT(refused(ErrorKind::kInput, Prompt({1}, {empty_stop})), HasSubstr("stop string"));
  // A refused request leaves nothing behind, also when only a part of it is wrong.
  PromptSegment half = Prompt({1}, {Ask(0, 1)});
  half.below.push_back(Prompt({999}, {Ask(1, 1)}));
  refused(ErrorKind::kInput, half);
  EXPECT_EQ(engine.waiting(), 0);
  EXPECT_FALSE(engine.Step());
}

TEST(EngineErrors, SamplingOptionsOutOfRange) {
  Engine engine(SharedModel(), {});
  const auto refused = [&](auto change) {
    AnswerRequest answer = Ask(0, 1);
    change(answer.sampling);
    return ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(Prompt({1}, {answer})); });
  };
  EXPECT_THAT(refused([](SamplingOptions& s) { s.temperature = -1.0f; }), HasSubstr("temperature"));
  EXPECT_THAT(refused([](SamplingOptions& s) { s.temperature = NAN; }), HasSubstr("temperature"));
  EXPECT_THAT(refused([](SamplingOptions& s) { s.top_k = -1; }), HasSubstr("top_k"));
  EXPECT_THAT(refused([](SamplingOptions& s) { s.top_p = -0.1f; }), HasSubstr("top_p"));
  EXPECT_THAT(refused([](SamplingOptions& s) { s.min_p = 1.5f; }), HasSubstr("min_p"));
  EXPECT_THAT(refused([](SamplingOptions& s) { s.repetition_penalty = 0.0f; }),
              HasSubstr("repetition_penalty"));
}

TEST(EngineErrors, UnknownStrategyNamesThemAll) {
  const std::string message = ErrorMessage(ErrorKind::kUsage, [] { ParseStrategy("forest"); });
  EXPECT_THAT(message, HasSubstr("forest"));
  EXPECT_THAT(message, HasSubstr("stacked"));
  for (const char* name :
       {"flat", "paged", "stacked", "tree", "auto", "sequential", "no-attention"}) {
    EXPECT_STREQ(StrategyName(ParseStrategy(name)), name);
  }
}

TEST(EngineBudget, TooSmallForOneStreamFailsThatOneAlone) {
  EngineOptions options;
  options.kv_memory = PageBytes() * 5;
  const std::vector<PromptSegment> requests = {Prompt(Tokens(20, 1), {Ask(0, 5)}),
                                               Prompt(Tokens(100, 2), {Ask(1, 5)}),
                                               Prompt(Tokens(30, 3), {Ask(2, 5)})};
  for (const Strategy strategy : {Strategy::kFlat, Strategy::kTree, Strategy::kStacked}) {
    options.strategy = strategy;
    const AnswersByTag answers = Answers(requests, options);
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers.at(1).finish, FinishReason::kError);
    EXPECT_THAT(answers.at(1).error, HasSubstr("7 pages"));  // needed
    EXPECT_THAT(answers.at(1).error, HasSubstr("5 pages"));  // there
    EXPECT_EQ(answers.at(0).tokens.size(), 5u);
    EXPECT_EQ(answers.at(2).tokens.size(), 5u);
  }
  options.kv_memory = PageBytes();
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [&] { Engine engine(SharedModel(), options); }),
              HasSubstr("at least 2"));
}

// A stream of one token never has a row in its tail: it needs room for its prompt alone.
TEST(EngineBudget, OneTokenNeedsNoMoreThanThePrompt) {
  EngineOptions options;
  options.kv_memory = PageBytes() * 4;
  for (const int max_new : {0, 1}) {
    const Answer answer = RunOne(Prompt(Tokens(64, 1), {Ask(0, max_new)}), options);
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(max_new));
  }
  EXPECT_NE(RunOne(Prompt(Tokens(64, 1), {Ask(0, 2)}), options).error, "");
  options.kv_memory = PageBytes() * 9;
  EXPECT_EQ(RunOne(Prompt(Tokens(64, 1), {Ask(0, 17)}), options).tokens.size(), 17u);
}

// The loop that the header shows must see every answer, the failed ones too.
TEST(EngineBudget, AFailureAtTheEndIsSeenByTheUsualLoop) {
  EngineOptions options;
  options.kv_memory = PageBytes() * 2;
  Engine engine(SharedModel(), options);
  engine.Submit(Prompt(Tokens(200, 1), {Ask(7, 5)}));
  int answers = 0;
  while (engine.Step()) answers += static_cast<int>(engine.TakeFinished().size());
  EXPECT_EQ(answers, 1);
}

TEST(EngineBudget, ManyOneTokenSegmentsFitWhenAlone) {
  PromptSegment root = Prompt({1}, {});
  PromptSegment* last = &root;
  for (int i = 0; i < 60; ++i) {
    last->below.push_back(Prompt({static_cast<TokenId>(i)}, {}));
    last = &last->below.back();
  }
  last->answers.push_back(Ask(0, 3));
  EngineOptions options;
  options.one_by_one = true;
  EXPECT_EQ(RunOne(root, options).error, "");
  EXPECT_EQ(RunOne(root, options).tokens, RunOne(root).tokens);
}

TEST(EngineBudget, FiveThousandStreamsThroughATinyBudget) {
  EngineOptions options;
  options.kv_memory = PageBytes() * 40;
  options.batch_rows = 64;
  Engine engine(SharedModel(), options);
  AnswersByTag answers;
  std::uint64_t tag = 0;
  while (answers.size() < 5000) {
    while (tag < 5000 && engine.waiting() < engine.wanted_waiting()) {
      PromptSegment context = Prompt(Tokens(40, static_cast<std::uint32_t>(tag / 10)), {});
      for (int q = 0; q < 10; ++q) {
        context.below.push_back(Prompt(Tokens(2, static_cast<std::uint32_t>(q)), {Ask(tag++, 1)}));
      }
      engine.Submit(std::move(context));
    }
    ASSERT_TRUE(engine.Step());
    testing_support::Collect(engine, answers);
  }
  EXPECT_FALSE(engine.Step());
  for (const auto& [id, answer] : answers) EXPECT_EQ(answer.finish, FinishReason::kLength) << id;
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.streams, 5000);
  EXPECT_EQ(receipt.generated_tokens, 5000);
  EXPECT_EQ(receipt.failed, 0);
  EXPECT_EQ(receipt.kv_bytes_total, options.kv_memory);
  EXPECT_LE(receipt.kv_bytes_peak, options.kv_memory);
  EXPECT_EQ(receipt.prompt_tokens, 5000 * 42);
  // Each context once (it stays while its questions are asked), each question once.
  EXPECT_EQ(receipt.prefilled_tokens, 500 * 40 + 5000 * 2);
}

TEST(EngineCache, NothingIsComputedTwice) {
  Engine engine(SharedModel(), {});
  PromptSegment request = Prompt(Tokens(150, 1), {Ask(0, 2)});
  request.below.push_back(Prompt(Tokens(20, 2), {Ask(1, 2), Ask(2, 2)}));
  RunAll(engine, {request});
  const Receipt fresh = engine.receipt();
  EXPECT_EQ(fresh.prefilled_tokens, 170);
  RunAll(engine, {request});
  EXPECT_EQ(engine.receipt().prefilled_tokens, 170 + 2);  // the two last tokens, for their logits
  EXPECT_EQ(fresh.decode_rows, 3);
}

TEST(EngineLimits, AnswersEndWithTheContext) {
  for (const int prompt : {290, 298, 299}) {
    const Answer answer = RunOne(Prompt(Tokens(prompt, 1), {Ask(0, 1000)}));
    EXPECT_EQ(static_cast<int>(answer.tokens.size()), kContext - prompt);
    EXPECT_EQ(answer.finish, FinishReason::kLength);
  }
  EXPECT_EQ(RunOne(Prompt(Tokens(300, 1), {Ask(0, 9)})).tokens.size(),
            1u);  // from the prompt alone
}

TEST(EngineLimits, NoTokensWanted) {
  AnswerRequest answer = Ask(5, 0);
  answer.want_logits = true;
  const Answer found = RunOne(Prompt(Tokens(5, 1), {answer}));
  EXPECT_TRUE(found.tokens.empty());
  EXPECT_EQ(found.tag, 5u);
  EXPECT_EQ(found.prompt_logits.size(), 260u);
}

}  // namespace
}  // namespace banyan
