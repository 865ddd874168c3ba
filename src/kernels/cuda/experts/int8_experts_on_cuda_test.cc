// Experts in 8 bits on the device: the bits of its dense products of codes and of the reference's,
// however many rows chose an expert, and from every stored form.
#include "kernels/experts_fixture.h"

namespace banyan::optest {
namespace {

class CudaInt8Experts : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsAvailable("cuda")) GTEST_SKIP() << "no GPU here, or a build without it";
    cuda_ = Make("cuda");
    reference_ = Make("reference");
  }

  static std::unique_ptr<Kernels> Make(const char* device,
                                       WeightResidency weights = WeightResidency::kConverted) {
    KernelOptions options;
    options.precision = Precision::kMixed;
    options.kv_type = KvType::kBF16;
    options.weights = weights;
    options.eight_bit_products = true;
    return MakeKernels(device, options);
  }

  std::unique_ptr<Kernels> cuda_, reference_;
};

const std::vector<int> kUglyCounts = {0, 1, 7, 8, 9, 16, 17, 33, 65, 97, 129, 193, 500};

// A gate whose values are the same in single and in double precision: half of what is negative.
constexpr ExpertGate kExactGate{0x1p-30f, 0.0f};

TEST_F(CudaInt8Experts, HaveTheBitsOfTheReference) {
  for (const auto& [hidden, inner] :
       std::vector<std::pair<int, int>>{{256, 384}, {192, 64}, {40, 72}, {336, 144}, {64, 31}}) {
    for (const bool bias : {false, true}) {
      const MixtureShape shape{static_cast<int>(kUglyCounts.size()),
                               1,
                               hidden,
                               inner,
                               ExpertShares::kOfChosen,
                               kExactGate,
                               bias};
      const HostMatrix scores = ScoresFor(kUglyCounts, 91);
      const HostMatrix x = RandomMatrix(scores.rows, hidden, 92);
      const Mixture here(*cuda_, LayoutOf(DType::kBF16), shape);
      const Mixture wanted(*reference_, LayoutOf(DType::kBF16), shape);
      const HostMatrix all = here.Mix(x, scores, scores.rows);
      ExpectSameBits(all.values, wanted.Mix(x, scores, scores.rows).values,
                     std::to_string(hidden) + " x " + std::to_string(inner));
      if (HasFatalFailure()) return;
    }
  }
}

// One expert of a row, whose share is 1: the bits of the dense products around a gate.
TEST_F(CudaInt8Experts, AnExpertIsABlockLikeOthers) {
  struct Case {
    std::vector<int> counts;
    int hidden, inner;
  };
  for (const auto& [counts, hidden, inner] : std::vector<Case>{{kUglyCounts, 256, 768},
                                                               {kUglyCounts, 576, 96},
                                                               {kUglyCounts, 320, 40},
                                                               {{3, 8, 40, 130}, 2048, 768},
                                                               {{1, 12}, 2880, 2880}}) {
    ExpectBlocksLikeOthers(*cuda_, counts, hidden, inner);
    if (HasFatalFailure()) return;
  }
}

// From weights that stay as stored and from converted ones; rows alone and among many.
TEST_F(CudaInt8Experts, FormsAndCompanyChangeNoBit) {
  const HostMatrix scores = ScoresFor(kUglyCounts, 73);
  const int experts = static_cast<int>(kUglyCounts.size());
  const auto compact = Make("cuda", WeightResidency::kCompact);
  const std::vector<MixtureShape> shapes = {
      {experts, 2, 512, 256, ExpertShares::kOfChosen, {}, false},
      {experts, 3, 256, 768, ExpertShares::kOfAll, {7.0f, 1.702f}, true}};
  for (const MixtureShape& shape : shapes) {
    const HostMatrix x = RandomMatrix(scores.rows, shape.hidden, 74);
    for (const DType form : {DType::kBF16, DType::kQ8_0, DType::kQ4_K, DType::kMXFP4}) {
      SCOPED_TRACE(TraitsOf(form).name);
      const Mixture mixture(*cuda_, LayoutOf(form), shape);
      const HostMatrix all = mixture.Mix(x, scores, scores.rows);
      ExpectSameBits(Mixture(*compact, LayoutOf(form), shape).Mix(x, scores, scores.rows).values,
                     all.values, "compact");
      ExpectSameBits(mixture.Mix(x, scores, 100).values, all.values, "few slots");
      ExpectSameBits(mixture.Mix(x, scores, 100, true).values, all.values, "in place");
      for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
               {0, 1}, {5, 13}, {100, 109}, {200, 240}, {300, 450}, {1, 800}}) {
        ExpectSameBits(mixture.Mix(x.Rows(begin, end), scores.Rows(begin, end)).values,
                       all.Rows(begin, end).values, std::to_string(end - begin) + " rows");
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Many experts with few rows each, as steps of decoding have.
TEST_F(CudaInt8Experts, ManyExpertsOfFewRows) {
  const MixtureShape shape{64, 4, 1024, 256, ExpertShares::kOfChosen, {}, true};
  const Mixture mixture(*cuda_, LayoutOf(DType::kBF16), shape);
  const HostMatrix scores = RandomMatrix(260, shape.experts, 77);
  const HostMatrix x = RandomMatrix(260, shape.hidden, 78);
  const HostMatrix all = mixture.Mix(x, scores);
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
           {0, 1}, {7, 9}, {39, 40}, {0, 8}, {100, 132}, {0, 40}, {3, 259}}) {
    ExpectSameBits(mixture.Mix(x.Rows(begin, end), scores.Rows(begin, end)).values,
                   all.Rows(begin, end).values, std::to_string(end - begin) + " rows");
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaInt8Experts, AreNearTheReferenceAndBrokenRowsStayAlone) {
  for (const auto& [hidden, inner] :
       std::vector<std::pair<int, int>>{{1024, 192}, {192, 1024}, {336, 144}, {64, 32}}) {
    const MixtureShape shape{6, 2, hidden, inner, ExpertShares::kOfChosen, {7.0f, 1.702f}, true};
    const HostMatrix scores = RandomMatrix(60, shape.experts, 75);
    const HostMatrix x = RandomMatrix(60, hidden, 76);
    const Mixture mixture(*cuda_, LayoutOf(DType::kBF16), shape);
    const HostMatrix all = mixture.Mix(x, scores);
    const HostMatrix wanted =
        Mixture(*reference_, LayoutOf(DType::kBF16), shape).Mix(x.Rows(0, 8), scores.Rows(0, 8));
    for (std::int64_t r = 0; r < 8; ++r) {
      std::vector<float> difference;
      for (size_t c = 0; c < wanted.Row(r).size(); ++c) {
        difference.push_back(all.Row(r)[c] - wanted.Row(r)[c]);
      }
      ASSERT_LE(Norm(difference), 0.03 * Norm(wanted.Row(r))) << "row " << r;
    }
    HostMatrix broken = x;
    broken.values[static_cast<size_t>(5 * hidden + 7)] = kNaN;
    const HostMatrix found = mixture.Mix(broken, scores);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      if (r != 5) ExpectSameBits(found.Row(r), all.Row(r), "row " + std::to_string(r));
    }
    for (const float value : found.Row(5)) ASSERT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace banyan::optest
