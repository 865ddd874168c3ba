// Mixtures of experts: choices and their order, the result against the reference, and that a row's
// bits depend on nobody else's choices.
#include "kernels/experts.h"

#include <gmock/gmock.h>

#include <utility>

#include "kernels/experts_fixture.h"

namespace banyan::optest {
namespace {

using testing::ElementsAre;

std::vector<int> Chosen(const std::vector<float>& scores, size_t count) {
  std::vector<ExpertChoice> choices(count);
  ChooseExperts(scores, ExpertShares::kOfChosen, choices);
  std::vector<int> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, BestScoresInTheOrderOfNumbers) {
  EXPECT_THAT(Chosen({1, 5, 2, 4, 3}, 3), ElementsAre(1, 3, 4));
  EXPECT_THAT(Chosen({7}, 1), ElementsAre(0));
  EXPECT_THAT(Chosen({2, 2, 2, 2}, 2), ElementsAre(0, 1)) << "the lower of equal ones";
  EXPECT_THAT(Chosen({-1, 3, 3, 3}, 2), ElementsAre(1, 2));
}

TEST(ChooseExperts, BrokenScoresAreTheWorst) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Chosen({kNaN, -1, kNaN, -2}, 2), ElementsAre(1, 3));
  EXPECT_THAT(Chosen({kNaN, kNaN, kNaN}, 2), ElementsAre(0, 1));
  EXPECT_THAT(Chosen({-infinity, infinity, 0}, 1), ElementsAre(1));
  std::vector<ExpertChoice> choices(2);
  ChooseExperts(std::vector<float>{kNaN, kNaN, infinity}, ExpertShares::kOfAll, choices);
  EXPECT_EQ(choices[1].share, 1.0f);
  EXPECT_EQ(choices[0].share, 0.0f);
}

TEST(ChooseExperts, SharesOfAllAndOfTheChosen) {
  const std::vector<float> scores = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  std::vector<ExpertChoice> choices(2);
  ChooseExperts(scores, ExpertShares::kOfAll, choices);
  EXPECT_NEAR(choices[0].share, 0.25, 1e-6);
  EXPECT_NEAR(choices[1].share, 0.625, 1e-6);
  ChooseExperts(scores, ExpertShares::kOfChosen, choices);
  EXPECT_NEAR(choices[0].share, 2.0 / 7, 1e-6);
  EXPECT_NEAR(choices[1].share, 5.0 / 7, 1e-6);
}

// logistic(score) of each; biases decide who is chosen, and change no share.
TEST(ChooseExperts, LogisticShares) {
  const std::vector<float> scores = {0.0f, std::log(3.0f), std::log(1.0f / 3.0f), kNaN};
  ExpertRule rule{2, ExpertShares::kLogistic, {}, 2.0f};
  std::vector<ExpertChoice> choices(2);
  ChooseExperts(scores, rule, {}, choices);
  EXPECT_EQ(choices[0].expert, 0);
  EXPECT_NEAR(choices[0].share, 1.0, 1e-6);
  EXPECT_EQ(choices[1].expert, 1);
  EXPECT_NEAR(choices[1].share, 1.5, 1e-6);
  rule.shares = ExpertShares::kLogisticOfChosen;
  const ExpertNumbers biases = {{}, {0.0f, 0.0f, 0.6f, 0.1f}};
  ChooseExperts(scores, rule, biases, choices);
  EXPECT_EQ(choices[0].expert, 1);
  EXPECT_NEAR(choices[0].share, 1.5, 1e-5);
  EXPECT_EQ(choices[1].expert, 2);
  EXPECT_NEAR(choices[1].share, 0.5, 1e-5);
}

TEST(ExpertRuns, RowsStandByExpert) {
  const std::vector<ExpertChoice> choices = {{1, 0}, {4, 0}, {0, 0}, {4, 0}, {1, 0}, {3, 0}};
  ExpertRuns runs;
  runs.Assign(choices, 2, 6);
  ASSERT_EQ(runs.runs.size(), 4u);
  EXPECT_EQ(runs.runs[1].expert, 1);
  EXPECT_EQ(runs.runs[1].begin, 1);
  EXPECT_EQ(runs.runs[1].end, 3);
  EXPECT_THAT(runs.row, ElementsAre(1, 0, 2, 2, 0, 1));
  EXPECT_THAT(runs.place, ElementsAre(1, 4, 0, 5, 2, 3));
}

class ExpertsTest : public OperationTest {};

// F32, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4: plain ones, and those that a device
// keeps as they are.
constexpr size_t kSomeLayouts[] = {0, 2, 3, 4, 7, 10, 11, 12, 13, 24};

// Of 256 columns, which every type's blocks divide.
std::vector<MixtureShape> WideShapes() {
  return {{7, 3, 256, 256, ExpertShares::kOfChosen, {}, false},
          {5, 2, 256, 512, ExpertShares::kOfAll, {7.0f, 1.702f}, true}};
}
// Sizes that fill no panel and no tile; everybody chooses everybody; a gate that cuts.
std::vector<MixtureShape> UglyShapes() {
  return {{3, 1, 7, 5, ExpertShares::kOfAll, {}, true},
          {4, 4, 33, 40, ExpertShares::kOfChosen, {0.5f, 3.0f}, true},
          {1, 1, 16, 48, ExpertShares::kOfAll, {}, false}};
}
// Gates by GELU, logistic shares, and numbers of each expert.
std::vector<MixtureShape> OtherRules() {
  const ExpertGate gelu{0.0f, 1.0f, Gate::kGeluTanh};
  const std::vector<float> scales = {0.5f, 2.0f, 1.0f, 3.0f, 0.25f};
  const std::vector<float> biases = {0.3f, -0.4f, 0.0f, 0.2f, 0.6f};
  return {{5, 2, 48, 32, ExpertShares::kOfChosen, gelu, false, 1.0f, {scales, {}}},
          {5, 3, 40, 33, ExpertShares::kLogisticOfChosen, {}, false, 1.5f, {{}, biases}},
          {5, 2, 32, 64, ExpertShares::kLogistic, {}, false, 0.5f, {scales, biases}},
          {150, 4, 32, 16, ExpertShares::kLogistic, gelu, false, 2.0f, {}}};
}

TEST_P(ExpertsTest, EqualsTheReference) {
  const auto compare = [&](const BlockLayout& layout, const MixtureShape& shape) {
    const HostMatrix x = RandomMatrix(19, shape.hidden, 51);
    const HostMatrix scores = RandomMatrix(19, shape.experts, 52);
    const HostMatrix found = Mixture(*tested_, layout, shape).Mix(x, scores);
    const HostMatrix wanted = Mixture(*reference_, layout, shape).Mix(x, scores);
    // Two products, whose inputs are rounded to bf16 or 8 bits when mixed. Values of random blocks
    // are large and cancel, so rows are compared as wholes.
    const double part = mixed() ? 0.3 : 1e-4;
    for (std::int64_t r = 0; r < found.rows; ++r) {
      std::vector<float> difference;
      for (size_t c = 0; c < found.Row(r).size(); ++c) {
        difference.push_back(found.Row(r)[c] - wanted.Row(r)[c]);
      }
      ASSERT_LE(Norm(difference), part * Norm(wanted.Row(r))) << "row " << r;
    }
  };
  for (const MixtureShape& shape : WideShapes()) {
    for (const size_t layout : kSomeLayouts) {
      SCOPED_TRACE(TraitsOf(Layouts()[layout].type).name);
      compare(Layouts()[layout], shape);
      if (HasFatalFailure()) return;
    }
  }
  for (const MixtureShape& shape : UglyShapes()) {
    compare(Layouts()[0], shape);
    compare(Layouts()[2], shape);
    if (HasFatalFailure()) return;
  }
  for (const MixtureShape& shape : OtherRules()) {
    SCOPED_TRACE("rule " + std::to_string(static_cast<int>(shape.shares)));
    compare(Layouts()[0], shape);
    compare(Layouts()[2], shape);
    if (HasFatalFailure()) return;
  }
}

// With one expert of a row, whose share is 1: the bits of the operations that any block consists
// of, from every stored type. (The reference does not round on the way.)
void ExpectBlockLikeOthers(Kernels& kernels) {
  const MixtureShape shape{3, 1, 256, 256, ExpertShares::kOfChosen, {}, false};
  const HostMatrix x = RandomMatrix(21, shape.hidden, 61);
  const HostMatrix scores = RandomMatrix(21, shape.experts, 62);
  for (const BlockLayout& layout : Layouts()) {
    SCOPED_TRACE(TraitsOf(layout.type).name);
    const Mixture mixture(kernels, layout, shape);
    const HostMatrix found = mixture.Mix(x, scores);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const std::span<const float> row = scores.Row(r);
      const auto expert = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
      const ExpertWeights& weights = mixture.table().experts[expert];
      Tensor halves = kernels.NewTensor(1, 2 * shape.inner);
      Tensor inner = kernels.NewTensor(1, shape.inner), out = kernels.NewTensor(1, shape.hidden);
      kernels.MatMul(Fill(kernels, x.Rows(r, r + 1)), *weights.gate_up, nullptr, halves);
      kernels.Glu(Gate::kSilu, halves, inner);
      kernels.MatMul(inner, *weights.down, nullptr, out);
      ExpectSameBits(found.Row(r), Read(kernels, out).values, "row " + std::to_string(r));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ExpertsOnCpu, AnExpertIsABlockLikeOthers) {
  for (const Precision precision : {Precision::kF32, Precision::kMixed}) {
    ExpectBlockLikeOthers(*MakeKernels("cpu", {precision, KvType::kF32, 2}));
  }
}

TEST_P(ExpertsTest, ARowsBitsDependOnNobodyElse) {
  for (const size_t layout : kSomeLayouts) {
    for (const MixtureShape& shape : WideShapes()) {
      const Mixture mixture(*tested_, Layouts()[layout], shape);
      const HostMatrix x = RandomMatrix(70, shape.hidden, 53);
      HostMatrix scores = RandomMatrix(70, shape.experts, 54);
      const HostMatrix all = mixture.Mix(x, scores);
      for (const auto& [begin, end] :
           std::vector<std::pair<int, int>>{{0, 1}, {69, 70}, {3, 6}, {10, 43}}) {
        ExpectSameBits(mixture.Mix(x.Rows(begin, end), scores.Rows(begin, end)).values,
                       all.Rows(begin, end).values, "some rows");
        if (HasFatalFailure()) return;
      }
      ExpectSameBits(mixture.Mix(x, scores, 9).values, all.values, "few slots");
      ExpectSameBits(mixture.Mix(x, scores, 9, true).values, all.values, "in place");
      if (HasFatalFailure()) return;
      // Everybody else goes elsewhere, or where row 5 goes.
      for (const int target : {0, shape.experts - 1}) {
        HostMatrix moved = scores;
        for (std::int64_t r = 0; r < moved.rows; ++r) {
          if (r != 5) moved.values[static_cast<size_t>(r * moved.columns + target)] = 100.0f;
        }
        ExpectSameBits(mixture.Mix(x, moved).Row(5), all.Row(5), "row 5 among others");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, ThreadsDoNotChangeBits) {
  const MixtureShape shape = WideShapes().front();
  const auto one = Make(GetParam().device, 1);
  for (const int threads : {2, 3, 16}) {
    const auto several = Make(GetParam().device, threads);
    for (const BlockLayout& layout : {Layouts()[2], Layouts()[7]}) {
      for (const int rows : {1, 40}) {
        const HostMatrix x = RandomMatrix(rows, shape.hidden, 55);
        const HostMatrix scores = RandomMatrix(rows, shape.experts, 56);
        ExpectSameBits(Mixture(*several, layout, shape).Mix(x, scores).values,
                       Mixture(*one, layout, shape).Mix(x, scores).values,
                       std::to_string(threads) + " threads");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, BrokenNumbersStayInTheirRow) {
  const MixtureShape shape = WideShapes().back();
  const Mixture mixture(*tested_, Layouts()[7], shape);
  const HostMatrix x = RandomMatrix(9, shape.hidden, 57);
  const HostMatrix scores = RandomMatrix(9, shape.experts, 58);
  const HostMatrix clean = mixture.Mix(x, scores);
  HostMatrix broken = x, broken_scores = scores;
  for (std::int64_t c = 0; c < x.columns; ++c) {
    broken.values[static_cast<size_t>(4 * x.columns + c)] = kNaN;
  }
  for (std::int64_t e = 0; e < scores.columns; ++e) {
    broken_scores.values[static_cast<size_t>(6 * scores.columns + e)] = kNaN;
  }
  const HostMatrix found = mixture.Mix(broken, broken_scores);
  for (const int r : {0, 1, 2, 3, 5, 7, 8}) {
    ExpectSameBits(found.Row(r), clean.Row(r), "row " + std::to_string(r));
  }
}

// KV has no part in this: one kind of it is enough.
std::vector<Backend> ExpertBackends() {
  std::vector<Backend> backends;
  for (const Backend& backend : AllBackends()) {
    if (backend.kv_type <= KvType::kF16) backends.push_back(backend);
  }
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, ExpertsTest, testing::ValuesIn(ExpertBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
