#include "kernels/fusion.h"

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
    const std::vector<ExpertRow> experts = {{1, 0.3, 0.9},  {2, 0.0, 0.2}, {3, 0.8, 1e-8},
                                            {4, 0.15, 1.0}, {8, 1.0, 0.5}, {1, 0.3, 0.9}};
    std::vector<PanelRow> panels;
    for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
      for (const size_t count : {size_t{1}, size_t{3}, experts.size()}) {
        PanelRow panel = PanelOf(std::span(experts).first(count), rule);
        panel.prior = static_cast<std::int32_t>(panels.size() % 3);
        panel.gamma = count == 3 ? 0.0 : 2.5;
        panels.push_back(panel);
      }
    }
    const auto count = static_cast<std::int64_t>(panels.size());
    Tensor fused = optest::Poisoned(*tested_, count, vocabulary);
    tested_->FuseLogits(logits, panels, fused);
    const optest::HostMatrix found = optest::Read(*tested_, fused);
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < panels.size(); ++i) {
      const std::vector<float> expected = Fused(host, panels[i]);
      if (panels[i].rule == FusionRule::kMax) {
        optest::ExpectSameBits(found.Row(static_cast<std::int64_t>(i)), expected, "max");
      }
      for (size_t v = 0; v < expected.size(); ++v) {
        ASSERT_NEAR(found.Row(static_cast<std::int64_t>(i))[v], expected[v],
                    1e-6 * std::max(1.0f, std::fabs(expected[v])))
            << "panel " << i << ", token " << v;
      }
      tokens.push_back(static_cast<TokenId>(i * 37 % static_cast<size_t>(vocabulary)));
      // Alone: the same bits.
      Tensor alone = optest::Poisoned(*tested_, 1, vocabulary);
      tested_->FuseLogits(logits, std::span(&panels[i], 1), alone);
      optest::ExpectSameBits(optest::Read(*tested_, alone).values,
                             found.Row(static_cast<std::int64_t>(i)), "alone");
    }
    std::vector<std::int32_t> winners(panels.size(), -1);
    tested_->FindWinners(logits, panels, tokens, winners);
    for (size_t i = 0; i < panels.size(); ++i) {
      EXPECT_EQ(winners[i], WinningExpert(RowsOf(host), panels[i], tokens[i])) << i;
    }
  }
}

TEST_P(Panels, DivergeAsByTheHostFunction) {
  const Tensor logits = optest::Fill(*tested_, optest::RandomMatrix(5, 5003, 72));
  const optest::HostMatrix host = optest::Read(*tested_, logits);
  const std::vector<RowPair> pairs = {{0, 1}, {1, 0}, {2, 2}, {4, 3}};
  std::vector<double> bits(pairs.size(), -1.0);
  tested_->MeasureDivergence(logits, pairs, bits);
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_NEAR(bits[i], Divergence(host.Row(pairs[i].first), host.Row(pairs[i].second)), 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Panels, testing::ValuesIn(optest::AllBackends()),
                         optest::BackendName);

}  // namespace
}  // namespace banyan
