// Experts in 8 bits (precision w8a8) on the reference backend: the definition, against plain loops
// and against products of codes one after another.
#include "kernels/experts_fixture.h"
#include "kernels/int8.h"

namespace banyan::optest {
namespace {

class Int8Experts : public testing::Test {
 protected:
  static KernelOptions Options() {
    KernelOptions options{Precision::kMixed, KvType::kF16, 1};
    options.eight_bit_products = true;
    return options;
  }
  static const BlockLayout& Floats() { return Layouts().front(); }

  std::unique_ptr<Kernels> kernels_ = MakeKernels("reference", Options());
};

float Bf16Of(float value) { return BF16ToFloat(FloatToBF16(value)); }

// A row of a length that is not rotated.
struct PlainCodes {
  std::vector<int> codes;
  float scale = 0.0f;

  explicit PlainCodes(std::span<const float> row) {
    float largest = 0.0f;
    for (const float value : row) largest = std::max(largest, std::fabs(Bf16Of(value)));
    scale = largest / 127.0f;
    for (const float value : row) {
      codes.push_back(static_cast<int>(std::nearbyint(Bf16Of(value) * (1.0f / scale))));
    }
  }
};

std::vector<float> PlainProduct(std::span<const float> x, const HostMatrix& w) {
  const PlainCodes row(x);
  std::vector<float> out;
  for (std::int64_t n = 0; n < w.rows; ++n) {
    const PlainCodes weights(w.Row(n));
    long sum = 0;
    for (size_t k = 0; k < row.codes.size(); ++k) sum += long{row.codes[k]} * weights.codes[k];
    out.push_back(static_cast<float>(sum) * (row.scale * weights.scale));
  }
  return out;
}

TEST_F(Int8Experts, EqualPlainLoops) {
  const MixtureShape shape{5, 2, 24, 20, ExpertShares::kOfChosen, {}, false};
  ASSERT_EQ(HadamardWidth(shape.hidden), 1);
  ASSERT_EQ(HadamardWidth(shape.inner), 1);
  const HostMatrix x = RandomMatrix(17, shape.hidden, 81);
  const HostMatrix scores = RandomMatrix(17, shape.experts, 82);
  const HostMatrix found = Mixture(*kernels_, Floats(), shape).Mix(x, scores);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    std::vector<ExpertChoice> choices(static_cast<size_t>(shape.chosen));
    ChooseExperts(scores.Row(r), shape.shares, choices);
    std::vector<double> sum(static_cast<size_t>(shape.hidden), 0.0);
    for (const auto& [expert, share] : choices) {
      const auto seed = static_cast<std::uint32_t>(100 + 2 * expert);  // of Mixture
      const auto gate_up = RandomStored(Floats(), 2 * shape.inner, shape.hidden, seed);
      const auto down = RandomStored(Floats(), shape.hidden, shape.inner, seed + 1);
      const std::vector<float> halves = PlainProduct(x.Row(r), gate_up->floats);
      std::vector<float> inner;
      for (size_t i = 0; i < static_cast<size_t>(shape.inner); ++i) {
        const double gate = halves[i], up = halves[static_cast<size_t>(shape.inner) + i];
        inner.push_back(static_cast<float>(gate / (1.0 + std::exp(-gate)) * up));
      }
      const std::vector<float> part = PlainProduct(inner, down->floats);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{share} * part[i];
    }
    const std::vector<float> wanted(sum.begin(), sum.end());
    ExpectSameBits(found.Row(r), wanted, "row " + std::to_string(r));
    if (HasFatalFailure()) return;
  }
}

// Rotated rows: with one expert of a row, whose share is 1, the products that any block has.
TEST_F(Int8Experts, AnExpertIsABlockLikeOthers) {
  for (const auto& [hidden, inner] :
       std::vector<std::pair<int, int>>{{256, 384}, {192, 64}, {40, 128}, {128, 33}}) {
    SCOPED_TRACE(std::to_string(hidden) + " x " + std::to_string(inner));
    const MixtureShape shape{3, 1, hidden, inner, ExpertShares::kOfChosen, {}, true};
    const HostMatrix x = RandomMatrix(15, hidden, 83);
    const HostMatrix scores = RandomMatrix(15, shape.experts, 84);
    const Mixture mixture(*kernels_, Floats(), shape);
    const HostMatrix found = mixture.Mix(x, scores);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const std::span<const float> row = scores.Row(r);
      const auto expert = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
      const ExpertWeights& weights = mixture.table().experts[expert];
      Tensor halves = kernels_->NewTensor(1, 2 * inner), between = kernels_->NewTensor(1, inner);
      Tensor out = kernels_->NewTensor(1, hidden);
      kernels_->MatMul(Fill(*kernels_, x.Rows(r, r + 1)), *weights.gate_up,
                       weights.gate_up_bias.get(), halves);
      kernels_->Glu(Gate::kSilu, halves, between);
      kernels_->MatMul(between, *weights.down, weights.down_bias.get(), out);
      ExpectSameBits(found.Row(r), Read(*kernels_, out).values, "row " + std::to_string(r));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Int8Experts, ARowsBitsDependOnNobodyElse) {
  const MixtureShape shape{7, 3, 128, 96, ExpertShares::kOfAll, {7.0f, 1.702f}, true};
  const Mixture mixture(*kernels_, Floats(), shape);
  const HostMatrix x = RandomMatrix(30, shape.hidden, 85);
  const HostMatrix scores = RandomMatrix(30, shape.experts, 86);
  const HostMatrix all = mixture.Mix(x, scores);
  for (const auto& [begin, end] :
       std::vector<std::pair<int, int>>{{0, 1}, {29, 30}, {3, 6}, {10, 23}}) {
    ExpectSameBits(mixture.Mix(x.Rows(begin, end), scores.Rows(begin, end)).values,
                   all.Rows(begin, end).values, "some rows");
  }
  ExpectSameBits(mixture.Mix(x, scores, 4).values, all.values, "few slots");
  ExpectSameBits(mixture.Mix(x, scores, 4, true).values, all.values, "in place");
  HostMatrix broken = x;
  broken.values[static_cast<size_t>(5 * x.columns + 7)] = std::numeric_limits<float>::infinity();
  const HostMatrix found = mixture.Mix(broken, scores);
  for (const float value : found.Row(5)) EXPECT_TRUE(std::isnan(value));
  ExpectSameBits(found.Row(4), all.Row(4), "row before");
  ExpectSameBits(found.Row(6), all.Row(6), "row after");
}

TEST_F(Int8Experts, AreNearThoseOfTheValues) {
  const auto exact = MakeKernels("reference", {Precision::kF32, KvType::kF32, 1});
  for (const auto& [hidden, inner] : std::vector<std::pair<int, int>>{{256, 128}, {100, 60}}) {
    const MixtureShape shape{6, 2, hidden, inner, ExpertShares::kOfChosen, {}, false};
    const HostMatrix x = RandomMatrix(12, hidden, 87), scores = RandomMatrix(12, 6, 88);
    const Mixture coded(*kernels_, Floats(), shape), plain(*exact, Floats(), shape);
    const HostMatrix found = coded.Mix(x, scores), wanted = plain.Mix(x, scores);
    EXPECT_LT(2 * coded.table().experts.front().down->bytes,
              plain.table().experts.front().down->bytes);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      std::vector<float> difference;
      for (size_t c = 0; c < wanted.Row(r).size(); ++c) {
        difference.push_back(found.Row(r)[c] - wanted.Row(r)[c]);
      }
      EXPECT_LT(Norm(difference), 0.05 * Norm(wanted.Row(r))) << "row " << r;
      EXPECT_GT(Norm(difference), 0.0);  // it is not the product of the values
    }
  }
}

}  // namespace
}  // namespace banyan::optest
