// Experts on the device, of sizes that its kernels for few and for many rows serve: a row has the
// bits of the dense products of its expert, however many rows chose the expert, from every form.
#include "kernels/experts_fixture.h"

namespace banyan::optest {
namespace {

class CudaExperts : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsAvailable("cuda")) GTEST_SKIP() << "no GPU here, or a build without it";
    converted_ = Make(WeightResidency::kConverted);
    quantised_ = Make(WeightResidency::kCompact);
  }

  static std::unique_ptr<Kernels> Make(WeightResidency weights) {
    KernelOptions options;
    options.precision = Precision::kMixed;
    options.kv_type = KvType::kBF16;
    options.weights = weights;
    return MakeKernels("cuda", options);
  }

  std::unique_ptr<Kernels> converted_, quantised_;
};

const std::vector<int> kUglyCounts = {0, 1, 7, 8, 9, 16, 17, 33, 65, 97, 129, 500};
constexpr DType kForms[] = {DType::kBF16, DType::kQ8_0, DType::kQ4_0,  DType::kQ4_1,  DType::kQ4_K,
                            DType::kQ5_K, DType::kQ6_K, DType::kMXFP4, DType::kIQ4_NL};

// One expert of a row, whose share is 1: the bits of the dense products around a gate.
TEST_F(CudaExperts, AnExpertIsABlockLikeOthers) {
  for (const auto& [hidden, inner] :
       std::vector<std::pair<int, int>>{{256, 768}, {576, 96}, {320, 40}}) {
    ExpectBlocksLikeOthers(*converted_, kUglyCounts, hidden, inner);
    if (HasFatalFailure()) return;
  }
}

// Quantised weights have the bits of converted ones, and rows alone those of rows among many.
TEST_F(CudaExperts, FormsAndCompanyChangeNoBit) {
  const HostMatrix scores = ScoresFor(kUglyCounts, 73);
  const int experts = static_cast<int>(kUglyCounts.size());
  const std::vector<MixtureShape> shapes = {
      {experts, 2, 512, 256, ExpertShares::kOfChosen, {}, false},
      {experts, 3, 256, 768, ExpertShares::kOfAll, {7.0f, 1.702f}, true}};
  for (const MixtureShape& shape : shapes) {
    const HostMatrix x = RandomMatrix(scores.rows, shape.hidden, 74);
    for (const DType form : kForms) {
      SCOPED_TRACE(TraitsOf(form).name);
      const Mixture converted(*converted_, LayoutOf(form), shape);
      const Mixture quantised(*quantised_, LayoutOf(form), shape);
      const HostMatrix all = converted.Mix(x, scores, scores.rows);
      ExpectSameBits(quantised.Mix(x, scores, scores.rows).values, all.values, "compact, all rows");
      if (HasFatalFailure()) return;
      for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
               {0, 1}, {5, 13}, {100, 109}, {200, 240}, {300, 450}, {1, 800}}) {
        const HostMatrix some = x.Rows(begin, end), their = scores.Rows(begin, end);
        const std::string what = std::to_string(end - begin) + " rows";
        ExpectSameBits(converted.Mix(some, their).values, all.Rows(begin, end).values,
                       "converted, " + what);
        ExpectSameBits(quantised.Mix(some, their).values, all.Rows(begin, end).values,
                       "compact, " + what);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Many experts with few rows each, where a warp takes several units of weights one after another; a
// row alone has too few of them for that.
TEST_F(CudaExperts, SeveralUnitsOfAWarpAreSeveralWarps) {
  const MixtureShape shape{64, 4, 1024, 256, ExpertShares::kOfChosen, {}, true};
  const HostMatrix scores = RandomMatrix(40, shape.experts, 77);
  const HostMatrix x = RandomMatrix(40, shape.hidden, 78);
  for (const DType form : {DType::kBF16, DType::kQ8_0, DType::kMXFP4}) {
    SCOPED_TRACE(TraitsOf(form).name);
    const Mixture converted(*converted_, LayoutOf(form), shape);
    const Mixture quantised(*quantised_, LayoutOf(form), shape);
    const HostMatrix all = converted.Mix(x, scores);
    ExpectSameBits(quantised.Mix(x, scores).values, all.values, "compact");
    for (const int r : {0, 7, 39}) {
      ExpectSameBits(converted.Mix(x.Rows(r, r + 1), scores.Rows(r, r + 1)).values,
                     all.Rows(r, r + 1).values, "alone");
      ExpectSameBits(quantised.Mix(x.Rows(r, r + 1), scores.Rows(r, r + 1)).values,
                     all.Rows(r, r + 1).values, "alone, compact");
      if (HasFatalFailure()) return;
    }
  }
}

// gpt-oss: 2880 columns, biases, a gate that cuts; and columns that no copy engine takes.
TEST_F(CudaExperts, WideAndUnevenSizes) {
  for (const auto& [hidden, inner] :
       std::vector<std::pair<int, int>>{{2880, 192}, {192, 2880}, {336, 144}, {64, 32}}) {
    const MixtureShape shape{4, 2, hidden, inner, ExpertShares::kOfChosen, {7.0f, 1.702f}, true};
    const HostMatrix scores = ScoresFor({3, 40, 11, 130}, 75);
    const HostMatrix x = RandomMatrix(scores.rows, hidden, 76);
    for (const DType form : {DType::kBF16, DType::kMXFP4}) {
      if (form == DType::kMXFP4 && (hidden % 32 != 0 || inner % 32 != 0)) continue;
      SCOPED_TRACE(std::string(TraitsOf(form).name) + " " + std::to_string(hidden));
      const Mixture converted(*converted_, LayoutOf(form), shape);
      const Mixture quantised(*quantised_, LayoutOf(form), shape);
      const HostMatrix all = converted.Mix(x, scores);
      ExpectSameBits(quantised.Mix(x, scores).values, all.values, "compact");
      for (const int r : {0, 17, 100, 183}) {
        ExpectSameBits(converted.Mix(x.Rows(r, r + 1), scores.Rows(r, r + 1)).values,
                       all.Rows(r, r + 1).values, "alone");
        ExpectSameBits(quantised.Mix(x.Rows(r, r + 1), scores.Rows(r, r + 1)).values,
                       all.Rows(r, r + 1).values, "alone, compact");
        if (HasFatalFailure()) return;
      }
      const auto reference = MakeKernels("reference", {});
      const HostMatrix wanted =
          Mixture(*reference, LayoutOf(form), shape).Mix(x.Rows(0, 8), scores.Rows(0, 8));
      for (std::int64_t r = 0; r < 8; ++r) {
        std::vector<float> difference;
        for (size_t c = 0; c < wanted.Row(r).size(); ++c) {
          difference.push_back(all.Row(r)[c] - wanted.Row(r)[c]);
        }
        ASSERT_LE(Norm(difference), 0.3 * Norm(wanted.Row(r))) << "row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace banyan::optest
