#include "kernels/fusion.h"

#include "kernels/fusion_fixture.h"
#include "kernels/operation_fixture.h"

namespace banyan {
namespace {

using optest::kNaN;

constexpr float kInf = std::numeric_limits<float>::infinity();

LogitRows RowsOf(const optest::HostMatrix& m) { return {m.values.data(), m.columns, m.columns}; }

std::vector<float> Fused(const optest::HostMatrix& logits, const PanelRow& panel) {
  std::vector<float> out(static_cast<size_t>(logits.columns), kNaN);
  FusePanel(RowsOf(logits), panel, out);
  return out;
}

PanelRow PanelOf(std::span<const ExpertRow> experts, FusionRule rule) {
  PanelRow panel;
  panel.experts = experts;
  panel.rule = rule;
  return panel;
}

// Rows: prior, two experts.
const optest::HostMatrix kThree = {
    3, 3, {0.0f, 1.0f, 2.0f, /**/ 3.0f, 1.0f, 0.0f, /**/ 0.0f, 4.0f, 1.0f}};

TEST(Fusion, MaxTakesTheLargestOfContrastAndRelevance) {
  const std::vector<ExpertRow> experts = {{1, 0.5, 1.0}, {2, 0.0, std::exp(-1.0)}};
  // Expert 0: 1.5 s - 0.5 s_0 = 4.5, 1, -1; expert 1: s - 2.5 = -2.5, 1.5, -1.5.
  const PanelRow panel = PanelOf(experts, FusionRule::kMax);
  EXPECT_EQ(Fused(kThree, panel), (std::vector<float>{4.5f, 1.5f, -1.0f}));
  EXPECT_EQ(WinningExpert(RowsOf(kThree), panel, 0), 0);
  EXPECT_EQ(WinningExpert(RowsOf(kThree), panel, 1), 1);
  EXPECT_EQ(WinningExpert(RowsOf(kThree), panel, 2), 0);
}

TEST(Fusion, MixtureAndProductAreOfProbabilities) {
  const std::vector<ExpertRow> experts = {{1, 0.25, 0.8}, {2, 1.0, 0.4}};
  PanelRow panel = PanelOf(experts, FusionRule::kMixture);
  panel.gamma = 2.0;  // weights 0.64 : 0.16
  const double weights[2] = {0.8, 0.2};
  double p[2][3];
  for (size_t k = 0; k < 2; ++k) {
    double sum = 0.0;
    for (size_t v = 0; v < 3; ++v) {
      const double beta = experts[k].beta;
      p[k][v] = std::exp((1 + beta) * kThree.Row(experts[k].row)[v] - beta * kThree.Row(0)[v]);
      sum += p[k][v];
    }
    for (double& share : p[k]) share /= sum;
  }
  const std::vector<float> mixture = Fused(kThree, panel);
  panel.rule = FusionRule::kProduct;
  const std::vector<float> product = Fused(kThree, panel);
  for (size_t v = 0; v < 3; ++v) {
    EXPECT_NEAR(mixture[v], std::log(weights[0] * p[0][v] + weights[1] * p[1][v]), 1e-6);
    EXPECT_NEAR(product[v], weights[0] * std::log(p[0][v]) + weights[1] * std::log(p[1][v]), 1e-6);
    const int winner = weights[1] * p[1][v] > weights[0] * p[0][v] ? 1 : 0;
    EXPECT_EQ(WinningExpert(RowsOf(kThree), panel, static_cast<TokenId>(v)), winner);
  }
}

TEST(Fusion, EqualExpertsAreOneAndTheLowestWins) {
  const std::vector<ExpertRow> experts = {{1, 0.5, 0.7}, {1, 0.5, 0.7}};
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
    const std::vector<float> two = Fused(kThree, PanelOf(experts, rule));
    const std::vector<float> one = Fused(kThree, PanelOf(std::span(experts).first(1), rule));
    for (size_t v = 0; v < 3; ++v) EXPECT_NEAR(two[v], one[v], 1e-6);
    EXPECT_EQ(WinningExpert(RowsOf(kThree), PanelOf(experts, rule), 1), 0);
  }
}

// log-softmax of one row.
std::vector<double> LogSoftmax(std::span<const float> row) {
  double sum = 0.0;
  for (const float x : row) sum += std::exp(double{x});
  std::vector<double> out;
  for (const float x : row) out.push_back(x - std::log(sum));
  return out;
}

TEST(Fusion, NormalisedScoresAreLogProbabilities) {
  const std::vector<ExpertRow> experts = {{1, 0.5, 0.7}, {2, 0.0, 0.4}};
  PanelRow panel = PanelOf(experts, FusionRule::kMax);
  panel.scores = PanelScores::kNormalised;
  panel.gamma = 1.5;
  optest::HostMatrix logits = kThree;
  for (const float height : {0.0f, 7.0f}) {  // that a stream's logits are all high says nothing
    for (std::int64_t v = 0; v < 3; ++v) logits.values[static_cast<size_t>(6 + v)] += height;
    const std::vector<double> prior = LogSoftmax(logits.Row(0)), first = LogSoftmax(logits.Row(1)),
                              second = LogSoftmax(logits.Row(2));
    const std::vector<float> fused = Fused(logits, panel);
    for (size_t v = 0; v < 3; ++v) {
      const double of_first = 1.5 * first[v] - 0.5 * prior[v] + 1.5 * std::log(0.7);
      const double of_second = second[v] + 1.5 * std::log(0.4);
      EXPECT_NEAR(fused[v], std::max(of_first, of_second), 1e-6);
      EXPECT_EQ(WinningExpert(RowsOf(logits), panel, static_cast<TokenId>(v)),
                of_second > of_first ? 1 : 0);
    }
  }
}

TEST(Fusion, WhatNoExpertFindsPlausibleComesLast) {
  // Contrast alone would lift token 2, which the prior abhors and the expert hardly knows.
  const optest::HostMatrix logits = {2, 4, {0.0f, 0.0f, -40.0f, 0.0f, /**/ 5.0f, 3.5f, 0.0f, 1.0f}};
  const std::vector<ExpertRow> experts = {{1, 1.0, 1.0}};
  for (const PanelScores scores : {PanelScores::kRaw, PanelScores::kNormalised}) {
    PanelRow panel = PanelOf(experts, FusionRule::kMax);
    panel.scores = scores;
    const std::vector<float> all = Fused(logits, panel);
    EXPECT_GT(all[2], all[0]);
    panel.plausibility = 0.2;  // tokens 0 and 1: exp(-1.5) = 0.22
    const std::vector<float> some = Fused(logits, panel);
    EXPECT_EQ(some[0], all[0]);
    EXPECT_EQ(some[1], all[1]);
    // The others by the expert's own opinion, far below.
    EXPECT_GT(some[3], some[2]);
    EXPECT_NEAR(some[3] - some[2], 1.0, 1e-3);
    EXPECT_LT(some[3], some[1] - 900.0f);
    panel.plausibility = 1.0;
    EXPECT_LT(Fused(logits, panel)[1], all[1] - 900.0f);
  }
  for (const FusionRule rule : {FusionRule::kMixture, FusionRule::kProduct}) {
    PanelRow panel = PanelOf(experts, rule);
    panel.plausibility = 0.2;
    const std::vector<float> some = Fused(logits, panel);
    EXPECT_GT(some[0], some[2] + 900.0f);
    EXPECT_GT(some[1], some[3] + 900.0f);
    EXPECT_TRUE(std::isfinite(some[2]) && std::isfinite(some[3]));
  }
}

TEST(Fusion, ExpertsThatAbstainDoNotVoteUnlessAllDo) {
  std::vector<ExpertRow> experts = {{1, 0.2, 0.9, 0.5}, {2, 0.3, 0.4, 0.49}, {1, 0.0, 0.6, 0.1}};
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
    PanelRow panel = PanelOf(experts, rule);
    panel.abstention = 0.5;
    const std::vector<float> fused = Fused(kThree, panel);
    const std::vector<float> others = Fused(kThree, PanelOf(std::span(experts).subspan(1), rule));
    for (size_t v = 0; v < 3; ++v) {
      EXPECT_NEAR(fused[v], others[v], 1e-6);
      EXPECT_NE(WinningExpert(RowsOf(kThree), panel, static_cast<TokenId>(v)), 0);
    }
    panel.abstention = 0.05;
    EXPECT_EQ(Fused(kThree, panel), Fused(kThree, PanelOf(experts, rule)));
  }
}

TEST(Fusion, TheShareOfTokensIsTheirProbability) {
  const std::vector<float> row = {0.0f, std::log(2.0f), kNaN, std::log(5.0f)};
  const std::vector<TokenId> tokens = {1, 2, 0};
  EXPECT_NEAR(ShareOf(row, LogSumExp(row), tokens), 3.0 / 8, 1e-7);
  EXPECT_EQ(ShareOf(row, LogSumExp(row), {}), 0.0);
}

TEST(Fusion, BrokenLogitsNeverWin) {
  const optest::HostMatrix logits = {
      3, 3, {0.0f, -kInf, 0.0f, /**/ kNaN, 1.0f, -kInf, /**/ 2.0f, kNaN, -kInf}};
  const std::vector<ExpertRow> experts = {{1, 0.0, 1.0}, {2, 0.0, 1.0}};
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture}) {
    const std::vector<float> fused = Fused(logits, PanelOf(experts, rule));
    EXPECT_TRUE(std::isfinite(fused[0]) && std::isfinite(fused[1]));
    EXPECT_EQ(fused[2], -kInf);
    EXPECT_EQ(WinningExpert(RowsOf(logits), PanelOf(experts, rule), 0), 1);
    EXPECT_EQ(WinningExpert(RowsOf(logits), PanelOf(experts, rule), 1), 0);
  }
}

TEST(Divergence, IsNothingForEqualRowsAndABitForDisjointOnes) {
  const std::vector<float> a = {0.0f, 1.0f, -kInf}, b = {-kInf, -kInf, 5.0f};
  EXPECT_EQ(Divergence(a, a), 0.0);
  EXPECT_NEAR(Divergence(a, b), 1.0, 1e-12);
  const std::vector<float> even = {0.0f, 0.0f}, one = {0.0f, -kInf};
  // p = (1/2, 1/2), q = (1, 0), middle (3/4, 1/4).
  const double expected = 0.25 * std::log2(2.0 / 3) + 0.25 * 1.0 + 0.5 * std::log2(4.0 / 3);
  EXPECT_NEAR(Divergence(even, one), expected, 1e-12);
  EXPECT_NEAR(Divergence(one, even), expected, 1e-12);
}

// Every backend fuses as the functions above do, whatever the other panels are.
using Panels = optest::OperationTest;

TEST_P(Panels, AreFusedAsByTheHostFunctions) {
  for (const int vocabulary : {1, 33, 1003, 5000}) {
    const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(9, vocabulary, 71));
    const optest::HostMatrix host = optest::Read(*tested_, logits);
    const std::vector<ExpertRow> experts = {{1, 0.3, 0.9, 0.7},  {2, 0.0, 0.2}, {3, 0.8, 1e-8, 0.5},
                                            {4, 0.15, 1.0, 0.3}, {8, 1.0, 0.5}, {1, 0.3, 0.9, 0.1}};
    std::vector<PanelRow> panels;
    for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
      for (const size_t count : {size_t{1}, size_t{3}, experts.size()}) {
        for (const int kind : {0, 1, 2, 3}) {
          PanelRow panel = PanelOf(std::span(experts).first(count), rule);
          panel.prior = static_cast<std::int32_t>(panels.size() % 3);
          panel.gamma = count == 3 ? 0.0 : 2.5;
          if (kind % 2 == 1) panel.scores = PanelScores::kNormalised;
          if (kind >= 1) panel.plausibility = 0.1 * kind;
          if (kind >= 2) panel.abstention = 0.5;
          panels.push_back(panel);
        }
      }
    }
    // All tokens by their logprobs, and the winner of one that is forced.
    std::vector<SamplingRow> requests(panels.size());
    for (size_t i = 0; i < panels.size(); ++i) {
      requests[i].panel = static_cast<std::int32_t>(i);
      requests[i].top_logprobs = vocabulary;
      requests[i].forced = static_cast<TokenId>(i * 37 % static_cast<size_t>(vocabulary));
    }
    const std::vector<TokenChoice> found =
        tested_->Choose(logits, requests, {panels, nullptr})->Take();
    for (size_t i = 0; i < panels.size(); ++i) {
      SCOPED_TRACE("panel " + std::to_string(i));
      const std::vector<float> expected = Fused(host, panels[i]);
      const LogSumExp sum(expected);
      EXPECT_EQ(found[i].expert, WinningExpert(RowsOf(host), panels[i], requests[i].forced));
      EXPECT_NEAR(found[i].logprob, sum.Logprob(expected[static_cast<size_t>(found[i].token)]),
                  1e-5 * std::max(1.0f, std::fabs(found[i].logprob)));
      ASSERT_EQ(found[i].top.size(), expected.size());
      for (const TokenLogprob& entry : found[i].top) {
        ASSERT_NEAR(entry.logprob, sum.Logprob(expected[static_cast<size_t>(entry.token)]),
                    1e-5 * std::max(1.0f, std::fabs(entry.logprob)))
            << "token " << entry.token;
      }
      // Alone: the same bits.
      SamplingRow request = requests[i];
      request.panel = 0;
      const std::vector<TokenChoice> alone =
          tested_->Choose(logits, std::span(&request, 1), {std::span(&panels[i], 1), nullptr})
              ->Take();
      EXPECT_EQ(alone[0].logprob, found[i].logprob);
      EXPECT_EQ(alone[0].expert, found[i].expert);
      ASSERT_EQ(alone[0].top.size(), found[i].top.size());
      for (size_t v = 0; v < alone[0].top.size(); ++v) {
        ASSERT_EQ(alone[0].top[v].token, found[i].top[v].token);
        ASSERT_EQ(alone[0].top[v].logprob, found[i].top[v].logprob);
      }
    }
  }
}

TEST_P(Panels, DivergeAsByTheHostFunction) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(5, 5003, 72));
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  const std::vector<std::pair<std::int32_t, std::int32_t>> pairs = {{0, 1}, {1, 0}, {2, 2}, {4, 3}};
  std::vector<ExpertRow> experts;
  for (const auto& [expert, prior] : pairs) experts.push_back({expert});
  std::vector<PanelRow> panels;
  std::vector<SamplingRow> requests(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    PanelRow& panel = panels.emplace_back(PanelOf({&experts[i], 1}, FusionRule::kMax));
    panel.prior = pairs[i].second;
    panel.betas = BetaSource::kMeasured;
    requests[i].panel = static_cast<std::int32_t>(i);
  }
  const std::vector<TokenChoice> found =
      tested_->Choose(logits, requests, {panels, nullptr})->Take();
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(found[i].betas.size(), 1u);
    EXPECT_NEAR(found[i].betas[0], Divergence(host.Row(pairs[i].first), host.Row(pairs[i].second)),
                1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Panels, testing::ValuesIn(optest::AllBackends()),
                         optest::BackendName);

}  // namespace
}  // namespace banyan
