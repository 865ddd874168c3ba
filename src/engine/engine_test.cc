// What the engine promises beside exactness: errors that name what was expected and found, bounded
// memory, sampling, stop strings, forced tokens, the sequential baseline.
#include "banyan/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/model_parts.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ErrorMessage;
using testing_support::RunAll;
using testing_support::SameBits;
using testing_support::TempDirectory;
using testing_support::TinyShape;

constexpr int kContext = 300;

// One model for all tests of this file: a byte-level vocabulary, a context of 300 tokens.
std::shared_ptr<Model> SharedModel() {
  static const std::shared_ptr<Model> model = [] {
    const TempDirectory directory;
    const TinyShape shape{.family = "qwen3", .vocab = 260, .context = kContext, .seed = 21};
    testing_support::GgufWriter writer = testing_support::TinyGgufHeader(shape);
    testing_support::AddByteVocabulary(shape, {"ab", "abc"}, writer);
    testing_support::AddTinyTensors(shape, writer);
    writer.Write(directory.path() / "tiny.gguf");
    LoadOptions options;
    options.model = (directory.path() / "tiny.gguf").string();
    options.precision = "f32";
    options.threads = 1;
    return Model::Load(options);
  }();
  return model;
}

std::int64_t PageBytes() {
  const ModelConfig& config = SharedModel()->parts().config;
  return SharedModel()->parts().kernels->KvPageBytes(
      {config.layers, config.kv_heads, config.head_dim});
}

std::vector<TokenId> Tokens(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 256));
  return tokens;
}

AnswerRequest Ask(std::uint64_t tag, int max_new) {
  AnswerRequest answer;
  answer.tag = tag;
  answer.max_new = max_new;
  return answer;
}

PromptSegment Prompt(std::vector<TokenId> tokens, std::vector<AnswerRequest> answers) {
  PromptSegment segment;
  segment.tokens = std::move(tokens);
  segment.answers = std::move(answers);
  return segment;
}

// With and without steps ahead: the same.
AnswersByTag Answers(const std::vector<PromptSegment>& requests,
                     const EngineOptions& options = {}) {
  Engine engine(SharedModel(), options);
  const AnswersByTag answers = RunAll(engine, requests);
  EngineOptions ahead = options;
  ahead.steps_ahead = 1;
  Engine other(SharedModel(), ahead);
  testing_support::ExpectSameAnswers(answers, RunAll(other, requests));
  return answers;
}

Answer RunOne(const PromptSegment& request, const EngineOptions& options = {}) {
  return Answers({request}, options).begin()->second;
}

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
  options.kv_memory = PageBytes() * 4;
  const std::vector<PromptSegment> requests = {Prompt(Tokens(20, 1), {Ask(0, 5)}),
                                               Prompt(Tokens(100, 2), {Ask(1, 5)}),
                                               Prompt(Tokens(30, 3), {Ask(2, 5)})};
  for (const Strategy strategy : {Strategy::kFlat, Strategy::kTree, Strategy::kStacked}) {
    options.strategy = strategy;
    const AnswersByTag answers = Answers(requests, options);
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers.at(1).finish, FinishReason::kError);
    EXPECT_THAT(answers.at(1).error, HasSubstr("7 pages"));  // needed
    EXPECT_THAT(answers.at(1).error, HasSubstr("4 pages"));  // there
    EXPECT_EQ(answers.at(0).tokens.size(), 5u);
    EXPECT_EQ(answers.at(2).tokens.size(), 5u);
  }
  options.kv_memory = PageBytes();
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [&] { Engine engine(SharedModel(), options); }),
              HasSubstr("at least 2"));
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

TEST(EngineDecoding, StopTokensAreIncluded) {
  const Answer free = RunOne(Prompt(Tokens(50, 1), {Ask(0, 12)}));
  AnswerRequest stopped = Ask(0, 12);
  stopped.stop_tokens = {free.tokens[6]};
  const Answer found = RunOne(Prompt(Tokens(50, 1), {stopped}));
  EXPECT_EQ(found.finish, FinishReason::kStopToken);
  const auto first = std::ranges::find(free.tokens, free.tokens[6]);
  EXPECT_EQ(found.tokens, std::vector<TokenId>(free.tokens.begin(), first + 1));
}

TEST(EngineDecoding, ForcedTokensGetTheLogprobsThatGreedyReported) {
  const Answer greedy = RunOne(Prompt(Tokens(50, 1), {Ask(0, 20)}));
  AnswerRequest forced = Ask(0, 0);
  forced.forced = greedy.tokens;
  forced.stop_tokens = {greedy.tokens[0]};  // given text is not cut short
  const Answer scored = RunOne(Prompt(Tokens(50, 1), {forced}));
  EXPECT_EQ(scored.tokens, greedy.tokens);
  EXPECT_TRUE(SameBits(scored.logprobs, greedy.logprobs));
  // A forced token is scored with the same bits as when it is an alternative.
  AnswerRequest other = Ask(0, 0);
  other.forced = {greedy.tokens[0], 17};
  AnswerRequest all = Ask(0, 2);
  all.top_logprobs = 260;
  const Answer alternatives = RunOne(Prompt(Tokens(50, 1), {all}));
  const Answer found = RunOne(Prompt(Tokens(50, 1), {other}));
  for (const ScoredToken& entry : alternatives.top[1]) {
    EXPECT_TRUE(entry.token != 17 || entry.logprob == found.logprobs[1]);
  }
}

TEST(EngineDecoding, StopStringsAcrossTokens) {
  const Answer free = RunOne(Prompt(Tokens(50, 4), {Ask(0, 40)}));
  const std::string text = SharedModel()->text()->Decode(free.tokens, true);
  // Any piece of the text, as long as one to many tokens, ends the answer where it first stands.
  int tried = 0;
  for (size_t begin = 0; begin + 6 < text.size(); begin += 3) {
    for (const size_t size : {1, 2, 5}) {
      if ((text[begin] & 0xC0) == 0x80 || (text[begin + size] & 0xC0) == 0x80) continue;
      AnswerRequest stopped = Ask(0, 40);
      stopped.stop_strings = {"never written", text.substr(begin, size)};
      const Answer found = RunOne(Prompt(Tokens(50, 4), {stopped}));
      EXPECT_EQ(found.finish, FinishReason::kStopString);
      EXPECT_EQ(found.text, text.substr(0, text.find(stopped.stop_strings[1])));
      EXPECT_LE(found.tokens.size(), free.tokens.size());
      EXPECT_TRUE(std::equal(found.tokens.begin(), found.tokens.end(), free.tokens.begin()));
      ++tried;
    }
  }
  EXPECT_GT(tried, 5);
  AnswerRequest never = Ask(0, 40);
  never.stop_strings = {"never written"};
  const Answer whole = RunOne(Prompt(Tokens(50, 4), {never}));
  EXPECT_EQ(whole.finish, FinishReason::kLength);
  EXPECT_EQ(whole.text, text);
}

AnswerRequest Sample(std::uint64_t tag, float temperature, std::uint64_t seed, int max_new = 8) {
  AnswerRequest answer = Ask(tag, max_new);
  answer.sampling.temperature = temperature;
  answer.sampling.seed = seed;
  answer.sample_key = tag;
  return answer;
}

TEST(EngineSampling, DrawsAreKeyedNotScheduled) {
  std::vector<AnswerRequest> samples;
  for (std::uint64_t i = 0; i < 20; ++i) samples.push_back(Sample(i, 1.0f, 3));
  const AnswersByTag together = Answers({Prompt(Tokens(30, 1), samples)});
  std::set<std::vector<TokenId>> distinct;
  for (const auto& [tag, answer] : together) {
    distinct.insert(answer.tokens);
    const Answer alone = RunOne(Prompt(Tokens(30, 1), {samples[tag]}));
    EXPECT_EQ(alone.tokens, answer.tokens);
    EXPECT_TRUE(SameBits(alone.logprobs, answer.logprobs));
  }
  EXPECT_GT(distinct.size(), 15u);
  EXPECT_NE(RunOne(Prompt(Tokens(30, 1), {Sample(0, 1.0f, 4)})).tokens, together.at(0).tokens);
  for (const auto change : {&AnswerRequest::request_key, &AnswerRequest::question_key}) {
    AnswerRequest other = samples[0];
    other.*change = 99;
    EXPECT_NE(RunOne(Prompt(Tokens(30, 1), {other})).tokens, together.at(0).tokens);
  }
}

TEST(EngineSampling, OneCandidateIsGreedy) {
  const Answer greedy = RunOne(Prompt(Tokens(30, 1), {Ask(0, 8)}));
  AnswerRequest one = Sample(0, 1.5f, 3);
  one.sampling.top_k = 1;
  const Answer found = RunOne(Prompt(Tokens(30, 1), {one}));
  EXPECT_EQ(found.tokens, greedy.tokens);
  EXPECT_TRUE(SameBits(found.logprobs, greedy.logprobs));
}

TEST(EngineSampling, FrequenciesFollowTheLogits) {
  AnswerRequest look = Ask(0, 0);
  look.want_logits = true;
  const std::vector<float> logits = RunOne(Prompt(Tokens(30, 1), {look})).prompt_logits;
  constexpr int kDraws = 3000;
  constexpr double kTemperature = 1.25;
  std::vector<double> probability;
  double total = 0.0;
  for (const float logit : logits) {
    probability.push_back(std::exp(logit / kTemperature));
    total += probability.back();
  }
  std::vector<AnswerRequest> samples;
  for (std::uint64_t i = 0; i < kDraws; ++i) samples.push_back(Sample(i, kTemperature, 11, 1));
  std::vector<int> counts(logits.size());
  for (const auto& [tag, answer] : Answers({Prompt(Tokens(30, 1), samples)})) {
    ++counts[static_cast<size_t>(answer.tokens.at(0))];
  }
  // Pearson's statistic over tokens expected at least five times, the rest as one class. Its mean
  // is the number of classes less one, its deviation sqrt(2 * that); five deviations are allowed.
  double statistic = 0.0, rest_expected = 0.0, rest_found = 0.0;
  int classes = 1;
  for (size_t t = 0; t < logits.size(); ++t) {
    const double expected = kDraws * probability[t] / total;
    if (expected < 5.0) {
      rest_expected += expected;
      rest_found += counts[t];
      continue;
    }
    statistic += (counts[t] - expected) * (counts[t] - expected) / expected;
    ++classes;
  }
  statistic +=
      (rest_found - rest_expected) * (rest_found - rest_expected) / std::max(rest_expected, 1.0);
  EXPECT_GE(classes, 10);
  EXPECT_LT(statistic, (classes - 1) + 5.0 * std::sqrt(2.0 * (classes - 1)));
}

TEST(EngineSampling, RepetitionPenaltyForbidsNothingElse) {
  AnswerRequest penal = Ask(0, 40);
  penal.sampling.repetition_penalty = 1e6f;
  const Answer found = RunOne(Prompt(Tokens(30, 1), {penal}));
  const std::set<TokenId> distinct(found.tokens.begin(), found.tokens.end());
  EXPECT_EQ(distinct.size(), found.tokens.size());
  // The first token has no history.
  EXPECT_EQ(found.tokens[0], RunOne(Prompt(Tokens(30, 1), {Ask(0, 1)})).tokens[0]);
}

// All questions in one prompt, then the answers in turn, each after the earlier ones.
TEST(EngineSequential, AnswersFollowOneAnother) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(40, 1), {});
  std::vector<TokenId> all = context.tokens;
  for (std::uint32_t q = 0; q < 3; ++q) {
    context.below.push_back(Prompt(Tokens(7, 10 + q), {Ask(q, 4)}));
    all.insert(all.end(), context.below.back().tokens.begin(), context.below.back().tokens.end());
  }
  const AnswersByTag found = Answers({context}, sequential);
  ASSERT_EQ(found.size(), 3u);
  // The same as one long answer to the whole prompt, up to rounding: segments are cut elsewhere.
  const Answer whole = RunOne(Prompt(all, {Ask(0, 12)}));
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  for (const auto& [tag, answer] : found) {
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    logprobs.insert(logprobs.end(), answer.logprobs.begin(), answer.logprobs.end());
  }
  EXPECT_EQ(tokens, whole.tokens);
  ASSERT_EQ(logprobs.size(), whole.logprobs.size());
  for (size_t i = 0; i < logprobs.size(); ++i) EXPECT_NEAR(logprobs[i], whole.logprobs[i], 1e-4);
}

TEST(EngineSequential, AStoppedAnswerMakesRoomForTheNext) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(40, 1), {});
  for (std::uint32_t q = 0; q < 3; ++q) {
    context.below.push_back(Prompt(Tokens(7, 10 + q), {Ask(q, q == 1 ? 0 : 4)}));
  }
  context.below[0].answers[0].max_new = 0;  // the first and second want nothing
  const AnswersByTag found = Answers({context}, sequential);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found.at(0).tokens.empty());
  EXPECT_TRUE(found.at(1).tokens.empty());
  EXPECT_EQ(found.at(2).tokens.size(), 4u);
}

TEST(EngineSequential, TheContextEndsTheTurn) {
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  PromptSegment context = Prompt(Tokens(290, 1), {});
  for (std::uint64_t q = 0; q < 3; ++q) context.below.push_back(Prompt({1}, {Ask(q, 5)}));
  const AnswersByTag found = Answers({context}, sequential);
  EXPECT_EQ(found.at(0).tokens.size(), 5u);
  EXPECT_EQ(found.at(1).tokens.size(), 2u);
  EXPECT_EQ(found.at(2).finish, FinishReason::kError);
  EXPECT_THAT(found.at(2).error, HasSubstr("context"));
}

TEST(EngineNoAttention, RunsAndIsWrong) {
  EngineOptions none;
  none.strategy = Strategy::kNoAttention;
  const Answer ceiling = RunOne(Prompt(Tokens(60, 1), {Ask(0, 10)}), none);
  EXPECT_EQ(ceiling.tokens.size(), 10u);
  EXPECT_NE(ceiling.tokens, RunOne(Prompt(Tokens(60, 1), {Ask(0, 10)})).tokens);
}

}  // namespace
}  // namespace banyan
