// The reference itself, against numbers worked out by hand. Everything else is tested against it.
#include "kernels/reference/reference_kernels.h"

#include <array>

#include "kernels/operation_fixture.h"

namespace banyan::optest {
namespace {

TEST(Reference, RmsNormDividesByTheRootMeanSquare) {
  const auto kernels = MakeReferenceKernels({});
  Tensor out = kernels->NewTensor(1, 2);
  kernels->RmsNorm(Fill(*kernels, {1, 2, {3.0f, 4.0f}}),
                   *kernels->LoadVector(std::vector<float>{1.0f, 2.0f}), 12.5f, out);
  // mean square 12.5, plus eps 25: divided by 5.
  EXPECT_EQ(Read(*kernels, out).values, (std::vector<float>{0.6f, 1.6f}));
}

TEST(Reference, LayerNormTakesTheMeanAway) {
  const auto kernels = MakeReferenceKernels({});
  Tensor out = kernels->NewTensor(1, 2);
  kernels->LayerNorm(Fill(*kernels, {1, 2, {1.0f, 5.0f}}),
                     *kernels->LoadVector(std::vector<float>{1.0f, 2.0f}),
                     *kernels->LoadVector(std::vector<float>{0.5f, -0.5f}), 12.0f, out);
  // Mean 3, variance 4, plus eps 16: (∓2) / 4 times the weight, plus the bias.
  EXPECT_EQ(Read(*kernels, out).values, (std::vector<float>{0.0f, 0.5f}));
}

TEST(Reference, GeluWeighsByTheNormalDistribution) {
  const auto kernels = MakeReferenceKernels({});
  Tensor x = Fill(*kernels, {1, 4, {0.0f, 1.0f, -1.0f, 40.0f}});
  kernels->Activate(Activation::kGelu, x);
  const HostMatrix found = Read(*kernels, x);
  EXPECT_EQ(found.values[0], 0.0f);
  EXPECT_FLOAT_EQ(found.values[1], 0.84134475f);
  EXPECT_FLOAT_EQ(found.values[2], -0.15865525f);
  EXPECT_EQ(found.values[3], 40.0f);
}

TEST(Reference, MatMulAddsTheBias) {
  const auto kernels = MakeReferenceKernels({});
  const auto weights = LoadFloats(*kernels, {2, 3, {1, 2, 3, 4, 5, 6}});
  Tensor out = kernels->NewTensor(1, 2);
  const auto bias = kernels->LoadVector(std::vector<float>{0.5f, -0.5f});
  kernels->MatMul(Fill(*kernels, {1, 3, {1, 0, -1}}), *weights, bias.get(), out);
  EXPECT_EQ(Read(*kernels, out).values, (std::vector<float>{-1.5f, -2.5f}));
}

TEST(Reference, GluGatesTheSecondHalf) {
  const auto kernels = MakeReferenceKernels({});
  Tensor out = kernels->NewTensor(1, 2);
  const Tensor x = Fill(*kernels, {1, 4, {0.0f, 1.0f, 7.0f, 2.0f}});
  kernels->Glu(Gate::kSilu, x, out);
  EXPECT_EQ(Read(*kernels, out).values,
            (std::vector<float>{0.0f, static_cast<float>(2.0 / (1.0 + std::exp(-1.0)))}));
  kernels->Glu(Gate::kGeluTanh, x, out);
  EXPECT_EQ(Read(*kernels, out).values[0], 0.0f);
  EXPECT_NEAR(Read(*kernels, out).values[1], 2 * 0.841191990608, 1e-6);  // gelu_pytorch_tanh(1)
}

TEST(Reference, RotationTurnsPairsAHalfApart) {
  const auto kernels = MakeReferenceKernels({});
  const float quarter = 1.57079637f;
  const RopeTable rope{{quarter, 0.0f}, 2.0f};
  kernels->SetRopes(std::span(&rope, 1));
  const auto kv = kernels->NewKvMemory({1, 1, 6}, 1);
  const auto step = kernels->Upload(PlainBatch(2), EmptyPlan(2));
  // One head of 6 of which 4 turn; row 1 stands at position 1.
  HostMatrix contents = ConstantMatrix(2, 18, 0.0f);
  const std::array<float, 6> query = {1, 2, 3, 4, 5, 6};
  std::copy(query.begin(), query.end(), contents.values.begin());
  std::copy(query.begin(), query.end(), contents.values.begin() + 18);
  Tensor qkv = Fill(*kernels, contents);
  kernels->RotateAndStore(*step, 0, {1, 1, 6, 0, 1.0f}, {}, qkv, *kv);
  const HostMatrix found = Read(*kernels, qkv);
  const std::array<float, 6> still = {2, 4, 6, 8, 5, 6};
  const std::array<float, 6> turned = {-6, 4, 2, 8, 5, 6};
  for (int i = 0; i < 6; ++i) {
    EXPECT_FLOAT_EQ(found.Row(0)[i], still[i]);
    EXPECT_NEAR(found.Row(1)[i], turned[i], 1e-6);
  }
}

TEST(Reference, AttentionWeighsValuesBySoftmax) {
  const auto kernels = MakeReferenceKernels({});
  const auto kv = kernels->NewKvMemory({1, 1, 1}, 1);
  AttentionPlan plan;
  plan.pages = {0};
  plan.spans = {{0, 2, 0, 0}};
  plan.items = {{0, 2, 0, 2, 0, 0, 2, 0}};
  plan.merge_begin = {0, 1, 2};
  plan.merges = {{0, Opening::kChunk}, {1, Opening::kChunk}};
  plan.partials = 2;
  const auto step = kernels->Upload(PlainBatch(2), plan);
  Tensor qkv = Fill(*kernels, {2, 4, {9, 9, 0, 10, 1, 2, 1, 20}});  // two heads, one KV head
  const AttentionShape shape{2, 1, 1, 0, 1.0f, kNoRope};
  kernels->RotateAndStore(*step, 0, shape, {}, qkv, *kv);
  Tensor out = kernels->NewTensor(2, 2);
  kernels->Attend(*step, 0, {2, 1, 1, 0, 1.0f}, qkv, *kv, out);
  const HostMatrix found = Read(*kernels, out);
  EXPECT_EQ(found.Row(0)[0], 10.0f);
  EXPECT_EQ(found.Row(0)[1], 10.0f);
  const double e = std::exp(1.0);
  EXPECT_FLOAT_EQ(found.Row(1)[0], static_cast<float>((10 + 20 * e) / (1 + e)));
  EXPECT_FLOAT_EQ(found.Row(1)[1], static_cast<float>((10 + 20 * e * e) / (1 + e * e)));
}

TEST(Reference, KvTypesRoundAsTheyShould) {
  std::vector<float> head = {1.0f + 0x1p-11f, 1.0f + 0x1p-10f, -0.3f};
  reference::RoundToKvType(KvType::kF16, head);
  EXPECT_EQ(head[0], 1.0f);
  EXPECT_EQ(head[1], 1.0f + 0x1p-10f);
  head = {1.0f + 0x1p-8f, 1.0f + 0x1p-7f};
  reference::RoundToKvType(KvType::kBF16, head);
  EXPECT_EQ(head, (std::vector<float>{1.0f, 1.0f + 0x1p-7f}));
  head = {127.0f, -126.6f, 0.4f};  // no two neighbours to transform: codes of the values themselves
  reference::RoundToKvType(KvType::kQ8, head);
  EXPECT_EQ(head, (std::vector<float>{127.0f, -127.0f, 0.0f}));
  // Transformed by four: 127, 0.25, 2.75, -126.75; as codes 127, 0, 3, -127; and back.
  head = {1.625f, 128.125f, 125.625f, -1.375f};
  reference::RoundToKvType(KvType::kQ8, head);
  EXPECT_EQ(head, (std::vector<float>{1.5f, 128.5f, 125.5f, -1.5f}));
  head = {0.0f, 0.0f};
  reference::RoundToKvType(KvType::kQ8, head);
  EXPECT_EQ(head, (std::vector<float>{0.0f, 0.0f}));
  for (const float broken : {kNaN, std::numeric_limits<float>::infinity()}) {
    head = {1.0f, broken, 2.0f};
    reference::RoundToKvType(KvType::kQ8, head);
    for (const float x : head) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Reference, NewMemoryShowsWhatNobodyWrote) {
  const auto kernels = MakeReferenceKernels({});
  for (const float x : Read(*kernels, kernels->NewTensor(2, 3)).values) {
    EXPECT_TRUE(std::isnan(x));
  }
}

}  // namespace
}  // namespace banyan::optest
