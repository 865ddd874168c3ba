// How answers are made: stop tokens and strings, forced tokens, sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "banyan/engine.h"
#include "support/byte_model.h"

namespace banyan {
namespace {

using testing_support::Answers;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::RunOne;
using testing_support::SameBits;
using testing_support::SharedModel;
using testing_support::Tokens;

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

}  // namespace
}  // namespace banyan
