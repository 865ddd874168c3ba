#include "kernels/sampling.h"

#include <map>

#include "kernels/operation_fixture.h"

namespace banyan {
namespace {

float ScoreToken(std::span<const float> logits, TokenId token) {
  return LogSumExp(logits).Logprob(logits[static_cast<size_t>(token)]);
}

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
  EXPECT_EQ(Choose({kNaN, -kInf}, {}), kNoToken);
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

TEST(Greedy, NothingAllowedGivesNoToken) {
  const std::vector<std::uint32_t> none = {0u};
  SamplingRow request;
  request.allowed = none;
  for (const float temperature : {0.0f, 1.0f}) {
    request.temperature = temperature;
    EXPECT_EQ(Choose({1.0f, 2.0f}, request), kNoToken);
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

// Whether `token` is what the host function draws for the request, or for one whose draw and share
// differ by a millionth: sums in another order may fall on the other side of a limit.
bool IsDrawnNearby(std::span<const float> row, SamplingRow request, TokenId token) {
  const SamplingRow asked = request;
  constexpr double kNear = 1e-6;
  for (const double top_p : {0.0, -kNear, kNear}) {
    for (const double uniform : {0.0, -kNear, kNear}) {
      if (asked.top_p < 1.0f) request.top_p = static_cast<float>(asked.top_p + top_p);
      request.uniform = std::clamp(asked.uniform + uniform, 0.0, 0x1.fffffffffffffp-1);
      if (SelectToken(row, request).token == token) return true;
    }
  }
  return false;
}

// Rows that are hard on a search by value: ties, broken values, one value only, wide and narrow.
optest::HostMatrix UglyLogits(int vocabulary) {
  optest::HostMatrix logits = optest::RandomMatrix(6, vocabulary, 64);
  for (int t = 0; t < vocabulary; ++t) {
    const auto at = [&](int row) -> float& {
      return logits.values[static_cast<size_t>(row * vocabulary + t)];
    };
    at(1) *= 12.0f;
    at(2) = std::round(at(2) * 2.0f) / 2.0f;
    if (t % 7 == 3) at(3) = kNaN;
    if (t % 11 == 5) at(3) = -kInf;
    at(4) = t % 2 == 0 ? 0.0f : -0.0f;
    at(5) *= 3.0f;
  }
  if (vocabulary > 8) logits.values[static_cast<size_t>(3 * vocabulary + 6)] = kInf;
  return logits;
}

// What requests ask for, as numbers of one generator.
std::vector<SamplingRow> UglyRequests(int vocabulary, std::span<const TokenId> history,
                                      std::span<const std::uint32_t> allowed) {
  std::mt19937 generator(65);
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[generator() % sizeof...(values)];
  };
  std::vector<SamplingRow> requests(90);
  for (SamplingRow& request : requests) {
    request.row = static_cast<std::int32_t>(generator() % 6);
    request.temperature = one_of(0.0f, 0.05f, 0.7f, 1.0f, 30.0f);
    request.top_k = one_of(0, 0, 1, 5, 40, 3000);
    request.top_p = one_of(1.0f, 1.0f, 0.0f, 0.5f, 0.9f, 0.999f);
    request.min_p = one_of(0.0f, 0.0f, 0.01f, 0.3f, 2.0f);
    request.repetition_penalty = one_of(1.0f, 1.0f, 1.3f, 0.7f);
    request.history = history;
    request.top_logprobs = one_of(0, 0, 1, 7, 50);
    request.uniform = generator() / 4294967296.0;
    if (generator() % 3 == 0) request.allowed = allowed.first(1 + generator() % allowed.size());
    if (generator() % 9 == 0) request.forced = static_cast<TokenId>(generator() % vocabulary);
  }
  return requests;
}

TEST_P(SelectTokens, DrawAsTheHostFunctionFromUglyRows) {
  for (const int vocabulary : {1, 33, 4097, 20011}) {
    const Tensor logits = optest::Fill(*tested_, UglyLogits(vocabulary));
    const optest::HostMatrix host = optest::Read(*tested_, logits);
    std::vector<TokenId> history;
    for (int i = 0; i < 30; ++i) history.push_back(i * i % vocabulary);
    std::vector<std::uint32_t> allowed(static_cast<size_t>(vocabulary + 31) / 32);
    for (size_t w = 0; w < allowed.size(); ++w) {
      allowed[w] = 0x9e3779b9u * static_cast<std::uint32_t>(w + 3) | 1u;
    }
    const std::vector<SamplingRow> requests = UglyRequests(vocabulary, history, allowed);
    std::vector<TokenChoice> choices(requests.size());
    tested_->SelectTokens(logits, requests, choices);
    for (size_t r = 0; r < requests.size(); ++r) {
      const std::span<const float> row = host.Row(requests[r].row);
      const TokenChoice expected = SelectToken(row, requests[r]);
      if (requests[r].temperature > 0.0f) {
        EXPECT_TRUE(IsDrawnNearby(row, requests[r], choices[r].token))
            << "request " << r << " of " << vocabulary << " tokens: " << choices[r].token
            << ", expected " << expected.token;
      } else {
        EXPECT_EQ(choices[r].token, expected.token) << "request " << r;
      }
      const float logprob = ScoreToken(row, choices[r].token);
      if (!std::isinf(logprob)) {
        EXPECT_NEAR(choices[r].logprob, logprob, 1e-5);
      } else {
        EXPECT_EQ(choices[r].logprob, logprob);
      }
      ASSERT_EQ(choices[r].top.size(), expected.top.size()) << r;
      for (size_t i = 0; i < expected.top.size(); ++i) {
        EXPECT_EQ(choices[r].top[i].token, expected.top[i].token) << r;
      }
      TokenChoice alone;
      tested_->SelectTokens(logits, std::span(&requests[r], 1), std::span(&alone, 1));
      EXPECT_EQ(alone.token, choices[r].token) << r;
      EXPECT_EQ(alone.logprob, choices[r].logprob) << r;
    }
  }
}

// Of more logits than a device works on at a time.
TEST_P(SelectTokens, ChooseInACrowdAsAlone) {
  const int vocabulary = 50001;
  const Tensor logits = optest::Fill(*tested_, UglyLogits(vocabulary));
  const std::vector<TokenId> history = {0, 6, 4095, 4096, vocabulary - 1};
  std::vector<std::uint32_t> allowed(static_cast<size_t>(vocabulary + 31) / 32, 0x10400001u);
  std::vector<SamplingRow> requests = UglyRequests(vocabulary, history, allowed);
  requests.resize(24);
  for (SamplingRow& request : requests) request.temperature = 0.0f, request.top_logprobs = 0;
  const size_t count = requests.size();
  for (size_t i = count; i < 15 * count; ++i) requests.push_back(requests[i - count]);
  std::vector<TokenChoice> choices(requests.size());
  tested_->SelectTokens(logits, requests, choices);
  for (size_t r = 0; r < requests.size(); ++r) {
    TokenChoice alone = choices[r % count];
    if (r < count) {
      tested_->SelectTokens(logits, std::span(&requests[r], 1), std::span(&alone, 1));
    }
    EXPECT_EQ(choices[r].token, alone.token) << r;
    EXPECT_EQ(choices[r].logprob, alone.logprob) << r;
  }
}

TEST_P(SelectTokens, HistoryOutsideTheVocabularyIsAnInputError) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(1, 33, 66));
  const std::vector<TokenId> history = {33};
  SamplingRow request;
  request.history = history;
  request.repetition_penalty = 1.5f;
  TokenChoice choice;
  EXPECT_THROW(tested_->SelectTokens(logits, std::span(&request, 1), std::span(&choice, 1)), Error);
}

TEST_P(SelectTokens, ARowWithNothingAllowedHasNoTokenAndLeavesOthersAlone) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(2, 33, 62));
  const std::vector<std::uint32_t> none = {0u, 0u};
  std::vector<SamplingRow> requests(3);
  requests[1].row = 1;
  requests[1].allowed = none;
  requests[2].row = 1;
  std::vector<TokenChoice> choices(3);
  tested_->SelectTokens(logits, requests, choices);
  EXPECT_EQ(choices[1].token, kNoToken);
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(choices[i].token, SelectToken(host.Row(requests[i].row), requests[i]).token);
  }
}

TEST_P(SelectTokens, ForcedTokensHaveTheirLogSoftmax) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(5, 257, 63));
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  const std::vector<std::int32_t> rows = {4, 0, 0, 3};
  const std::vector<TokenId> tokens = {0, 256, 17, 100};
  std::vector<SamplingRow> requests(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    requests[i].row = rows[i];
    requests[i].forced = tokens[i];
  }
  std::vector<TokenChoice> choices(rows.size());
  tested_->SelectTokens(logits, requests, choices);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(choices[i].token, tokens[i]);
    EXPECT_NEAR(choices[i].logprob, ScoreToken(host.Row(rows[i]), tokens[i]), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SelectTokens, testing::ValuesIn(optest::AllBackends()),
                         optest::BackendName);

}  // namespace
}  // namespace banyan
