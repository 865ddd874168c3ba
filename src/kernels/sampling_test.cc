#include "kernels/sampling.h"

#include <map>

#include "kernels/operation_fixture.h"

namespace banyan {
namespace {

using optest::kNaN;

constexpr float kInf = std::numeric_limits<float>::infinity();

TokenId Choose(const std::vector<float>& logits, const SamplingRow& request) {
  return SelectToken(logits, request).token;
}

// How often each token is drawn over an even sweep of `uniform`.
std::map<TokenId, int> Histogram(const std::vector<float>& logits, SamplingRow request, int draws) {
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) {
    request.uniform = (i + 0.5) / draws;
    ++counts[Choose(logits, request)];
  }
  return counts;
}

TEST(Greedy, TakesTheLargestAndTheLowestIdOfTies) {
  EXPECT_EQ(Choose({0.5f, 2.0f, -1.0f, 2.0f}, {}), 1);
  EXPECT_EQ(Choose({-3.0f}, {}), 0);
  EXPECT_EQ(Choose({0.0f, -0.0f}, {}), 0);
  EXPECT_EQ(Choose({-0.0f, 0.0f}, {}), 0);
}

TEST(Greedy, NaNAndMinusInfinityNeverWin) {
  EXPECT_EQ(Choose({kNaN, -5.0f, kNaN}, {}), 1);
  EXPECT_EQ(Choose({-kInf, -5.0f, kNaN}, {}), 1);
  EXPECT_THROW(Choose({kNaN, -kInf}, {}), Error);
}

TEST(Greedy, RepetitionPenaltyCountsRepeatsOnce) {
  const std::vector<TokenId> history = {0, 0, 0, 2};
  SamplingRow request;
  request.history = history;
  request.repetition_penalty = 2.0f;
  // 3 → 1.5 once, -1 → -2.
  EXPECT_EQ(Choose({3.0f, 1.0f, -1.0f}, request), 0);
  EXPECT_EQ(Choose({3.0f, 1.6f, -1.0f}, request), 1);
  EXPECT_EQ(Choose({-9.0f, -1.5f, -1.0f}, request), 1);
  request.repetition_penalty = 1.0f;
  EXPECT_EQ(Choose({3.0f, 1.6f, -1.0f}, request), 0);
}

TEST(Greedy, MaskDecidesAfterThePenalty) {
  const std::vector<std::uint32_t> allowed = {0b0110u};
  SamplingRow request;
  request.allowed = allowed;
  EXPECT_EQ(Choose({9.0f, 1.0f, 2.0f, 9.0f}, request), 2);
  // Tokens beyond the words of the mask are not allowed.
  std::vector<float> many(40, 1.0f);
  many[39] = 5.0f;
  EXPECT_EQ(Choose(many, request), 1);
}

TEST(Greedy, NothingAllowedIsAnInputError) {
  const std::vector<std::uint32_t> none = {0u};
  SamplingRow request;
  request.allowed = none;
  for (const float temperature : {0.0f, 1.0f}) {
    request.temperature = temperature;
    try {
      Choose({1.0f, 2.0f}, request);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
}

TEST(Greedy, HistoryOutsideTheVocabularyIsAnInputError) {
  const std::vector<TokenId> history = {2};
  SamplingRow request;
  request.history = history;
  request.repetition_penalty = 1.5f;
  EXPECT_THROW(Choose({1.0f, 2.0f}, request), Error);
}

TEST(Logprobs, AreOfTheRawLogits) {
  const std::vector<float> logits = {1.0f, 2.0f, 3.0f};
  const std::vector<std::uint32_t> allowed = {0b001u};
  SamplingRow request;
  request.allowed = allowed;
  request.temperature = 0.1f;
  request.top_logprobs = 2;
  const TokenChoice choice = SelectToken(logits, request);
  EXPECT_EQ(choice.token, 0);
  const double log_sum = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_FLOAT_EQ(choice.logprob, static_cast<float>(1.0 - log_sum));
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].token, 2);
  EXPECT_EQ(choice.top[1].token, 1);
  EXPECT_FLOAT_EQ(choice.top[0].logprob, static_cast<float>(3.0 - log_sum));
  EXPECT_EQ(choice.logprob, ScoreToken(logits, 0));
}

TEST(Logprobs, SurviveLargeAndBrokenLogits) {
  EXPECT_FLOAT_EQ(ScoreToken(std::vector<float>{3e38f, 3e38f}, 1), std::log(0.5f));
  EXPECT_FLOAT_EQ(ScoreToken(std::vector<float>{kNaN, 1.0f}, 1), 0.0f);
  EXPECT_EQ(ScoreToken(std::vector<float>{kNaN, 1.0f}, 0), -kInf);
  EXPECT_EQ(ScoreToken(std::vector<float>{kInf, 1.0f}, 0), 0.0f);
  EXPECT_EQ(ScoreToken(std::vector<float>{kInf, 1.0f}, 1), -kInf);
  SamplingRow request;
  request.top_logprobs = 9;
  const TokenChoice choice = SelectToken(std::vector<float>{0.0f, kNaN, 0.0f}, request);
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].token, 0);
}

TEST(Draw, FollowsTheProbabilitiesInDescendingOrder) {
  // Probabilities 0.1, 0.6, 0.3.
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  SamplingRow request;
  request.temperature = 1.0f;
  for (const auto& [uniform, token] : std::map<double, TokenId>{
           {0.0, 1}, {0.59, 1}, {0.61, 2}, {0.89, 2}, {0.91, 0}, {0x1.fffffffffffffp-1, 0}}) {
    request.uniform = uniform;
    EXPECT_EQ(Choose(logits, request), token) << uniform;
  }
  const auto counts = Histogram(logits, request, 1000);
  EXPECT_NEAR(counts.at(0), 100, 1);
  EXPECT_NEAR(counts.at(1), 600, 1);
  EXPECT_NEAR(counts.at(2), 300, 1);
}

TEST(Draw, TemperatureSharpens) {
  const std::vector<float> logits = {std::log(0.2f), std::log(0.8f)};
  SamplingRow request;
  request.temperature = 0.5f;  // 0.04 : 0.64
  EXPECT_NEAR(Histogram(logits, request, 1700).at(0), 100, 1);
  request.temperature = 1e-30f;
  EXPECT_EQ(Histogram(logits, request, 100).count(0), 0u);
}

TEST(Draw, TopKTakesExactlyKByIdOnTies) {
  SamplingRow request;
  request.temperature = 1.0f;
  request.top_k = 2;
  const auto counts = Histogram({1.0f, 1.0f, 1.0f, 0.0f}, request, 100);
  EXPECT_EQ(counts, (std::map<TokenId, int>{{0, 50}, {1, 50}}));
}

TEST(Draw, TopPTakesTheShortestRunThatReachesItOfWhatTopKLeft) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f),
                                     std::log(0.1f)};
  SamplingRow request;
  request.temperature = 1.0f;
  request.top_p = 0.65f;
  EXPECT_EQ(Histogram(logits, request, 700).size(), 2u);
  request.top_p = 0.75f;
  EXPECT_EQ(Histogram(logits, request, 700).size(), 3u);
  request.top_k = 2;  // shares 4/7 and 3/7
  request.top_p = 0.57f;
  EXPECT_EQ(Histogram(logits, request, 700).size(), 1u);
  request.top_p = 0.0f;
  EXPECT_EQ(Histogram(logits, request, 700), (std::map<TokenId, int>{{0, 700}}));
}

TEST(Draw, MinPIsRelativeToTheBest) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f),
                                     std::log(0.05f)};
  SamplingRow request;
  request.temperature = 1.0f;
  request.min_p = 0.35f;
  EXPECT_EQ(Histogram(logits, request, 100).size(), 2u);
  request.min_p = 2.0f;  // the best one always stays
  EXPECT_EQ(Histogram(logits, request, 100).size(), 1u);
}

TEST(Draw, NeverLeavesTheMask) {
  const std::vector<std::uint32_t> allowed = {0xaaaaaaaau};
  SamplingRow request;
  request.temperature = 5.0f;
  request.allowed = allowed;
  const std::vector<float> logits = optest::RandomMatrix(1, 32, 60).values;
  for (const auto& [token, count] : Histogram(logits, request, 500)) {
    EXPECT_EQ(token % 2, 1) << count;
  }
}

TEST(Draw, SharesProbabilityAmongInfiniteLogits) {
  SamplingRow request;
  request.temperature = 1.0f;
  EXPECT_EQ(Histogram({kInf, 0.0f, kInf}, request, 10), (std::map<TokenId, int>{{0, 5}, {2, 5}}));
}

TEST(SelectToken, AForcedTokenIsScoredWhateverTheRestSays) {
  const std::vector<float> logits = {1.0f, 2.0f, -kInf, 0.5f};
  const std::vector<std::uint32_t> none = {0u};
  SamplingRow request;
  request.temperature = 0.7f;
  request.allowed = none;
  request.top_logprobs = 2;
  request.forced = 3;
  const TokenChoice choice = SelectToken(logits, request);
  EXPECT_EQ(choice.token, 3);
  EXPECT_EQ(choice.logprob, ScoreToken(logits, 3));
  ASSERT_EQ(choice.top.size(), 2u);
  EXPECT_EQ(choice.top[0].token, 1);
}

// Every backend chooses what the functions above choose, whatever the other rows ask.
using SelectTokens = optest::OperationTest;

TEST_P(SelectTokens, ChooseAsTheHostFunctionRowByRow) {
  const int vocabulary = 1003;
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(12, vocabulary, 61));
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  const std::vector<TokenId> history = {1, 500, 1002, 1};
  std::vector<std::uint32_t> allowed((vocabulary + 31) / 32, 0x11111111u);
  std::vector<SamplingRow> requests(15);  // some share a row, row 11 is asked for by none
  for (size_t r = 0; r < requests.size(); ++r) {
    SamplingRow& request = requests[r];
    request.row = static_cast<std::int32_t>(r * 7 % 11);
    request.temperature = r % 2 == 0 ? 0.0f : 0.8f;
    request.top_k = r % 3 == 0 ? 0 : 40;
    request.top_p = r % 4 == 3 ? 0.9f : 1.0f;
    request.min_p = r == 5 ? 0.05f : 0.0f;
    request.uniform = 0.066 * static_cast<double>(r);
    request.top_logprobs = static_cast<int>(r % 5);
    request.repetition_penalty = r > 6 ? 1.3f : 1.0f;
    request.history = history;
    if (r % 4 == 1) request.allowed = allowed;
  }
  std::vector<TokenChoice> choices(requests.size());
  tested_->SelectTokens(logits, requests, choices);
  for (size_t r = 0; r < requests.size(); ++r) {
    const TokenChoice expected = SelectToken(host.Row(requests[r].row), requests[r]);
    EXPECT_EQ(choices[r].token, expected.token) << r;
    EXPECT_NEAR(choices[r].logprob, expected.logprob, 1e-5) << r;
    ASSERT_EQ(choices[r].top.size(), expected.top.size()) << r;
    for (size_t i = 0; i < expected.top.size(); ++i) {
      EXPECT_EQ(choices[r].top[i].token, expected.top[i].token);
      EXPECT_NEAR(choices[r].top[i].logprob, expected.top[i].logprob, 1e-5);
    }
    // Alone: the same bits.
    const Tensor one = optest::Fill(*tested_, host.Rows(requests[r].row, requests[r].row + 1));
    SamplingRow request = requests[r];
    request.row = 0;
    TokenChoice alone;
    tested_->SelectTokens(one, std::span(&request, 1), std::span(&alone, 1));
    EXPECT_EQ(alone.token, choices[r].token);
    EXPECT_EQ(alone.logprob, choices[r].logprob);
  }
}

TEST_P(SelectTokens, ARowWithNothingAllowedIsAnInputError) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(2, 33, 62));
  const std::vector<std::uint32_t> none = {0u, 0u};
  std::vector<SamplingRow> requests(2);
  requests[1].row = 1;
  requests[1].allowed = none;
  std::vector<TokenChoice> choices(2);
  try {
    tested_->SelectTokens(logits, requests, choices);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
  }
}

TEST_P(SelectTokens, ScoreTokensGivesLogSoftmaxAnywhere) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(5, 257, 63));
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  const std::vector<std::int32_t> rows = {4, 0, 0, 3};
  const std::vector<TokenId> tokens = {0, 256, 17, 100};
  std::vector<float> logprobs(4, kNaN);
  tested_->ScoreTokens(logits, rows, tokens, logprobs);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(logprobs[i], ScoreToken(host.Row(rows[i]), tokens[i]), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SelectTokens, testing::ValuesIn(optest::AllBackends()),
                         optest::BackendName);

}  // namespace
}  // namespace banyan
