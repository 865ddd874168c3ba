// Heads as int8 KV keeps them: Hadamard-transformed, so that outlier columns cost no precision.
#include <bit>

#include "kernels/attention_fixture.h"
#include "kernels/hadamard.h"
#include "kernels/page_form.h"
#include "kernels/reference/reference_kernels.h"

namespace banyan::optest {

namespace {

std::span<float> RowOf(HostMatrix& matrix, std::int64_t row) {
  return std::span(matrix.values)
      .subspan(static_cast<size_t>(row * matrix.columns), static_cast<size_t>(matrix.columns));
}

TEST(HadamardHeads, WidthIsTheLargestPowerOfTwoUpTo128) {
  for (const auto& [head_dim, width] : {std::pair(256, 128),
                                        {128, 128},
                                        {64, 64},
                                        {192, 64},
                                        {96, 32},
                                        {80, 16},
                                        {20, 4},
                                        {6, 2},
                                        {7, 1},
                                        {1, 1}}) {
    EXPECT_EQ(HeadHadamardWidth(head_dim), width) << head_dim;
  }
  EXPECT_EQ(HadamardFactor(128), 0.08838834764f);
  EXPECT_EQ(HadamardFactor(64), 0.125f);
  EXPECT_EQ(HadamardFactor(2), 0.7071067812f);
  EXPECT_EQ(HadamardFactor(1), 1.0f);
}

TEST(HadamardHeads, TransformedTwiceIsTheHeadAndScoresStay) {
  for (const int head_dim : {1, 6, 20, 64, 80, 96, 128, 256}) {
    const HostMatrix heads = RandomMatrix(2, head_dim, 5);
    HostMatrix rotated = heads;
    double before = 0.0, after = 0.0;
    for (int row = 0; row < 2; ++row) HadamardHead(RowOf(rotated, row));
    for (int d = 0; d < head_dim; ++d) {
      before += double{heads.Row(0)[d]} * heads.Row(1)[d];
      after += double{rotated.Row(0)[d]} * rotated.Row(1)[d];
    }
    EXPECT_NEAR(after, before, 1e-5 * head_dim) << head_dim;
    HadamardHead(RowOf(rotated, 0));
    for (int d = 0; d < head_dim; ++d) ASSERT_NEAR(rotated.Row(0)[d], heads.Row(0)[d], 2e-6);
  }
}

// Heads of 256 values of which some columns, always the same, are far larger: what a norm of keys
// with such weights makes.
HostMatrix HeadsWithLargeColumns(int count) {
  HostMatrix heads = RandomMatrix(count, 256, 6);
  for (int row = 0; row < count; ++row) {
    for (const auto& [column, factor] : {std::pair(203, 40.0f), {75, 14.0f}, {12, 8.0f}}) {
      RowOf(heads, row)[static_cast<size_t>(column)] *= factor;
    }
  }
  return heads;
}

// Root mean square of the error over that of the values.
double RelativeError(const HostMatrix& found, const HostMatrix& wanted) {
  double error = 0.0, squares = 0.0;
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    error += std::pow(double{found.values[i]} - wanted.values[i], 2);
    squares += std::pow(double{wanted.values[i]}, 2);
  }
  return std::sqrt(error / squares);
}

// Of all columns but the large ones, which is what tells keys apart.
double ErrorOfOrdinaryColumns(HostMatrix found, HostMatrix wanted) {
  for (HostMatrix* matrix : {&found, &wanted}) {
    for (int row = 0; row < matrix->rows; ++row) {
      for (const int column : {203, 75, 12})
        RowOf(*matrix, row)[static_cast<size_t>(column)] = 0.0f;
    }
  }
  return RelativeError(found, wanted);
}

TEST(HadamardHeads, LargeColumnsCostLittlePrecision) {
  const HostMatrix heads = HeadsWithLargeColumns(64);
  HostMatrix plain = heads, kept = heads;
  for (int row = 0; row < 64; ++row) {
    const auto step =
        static_cast<float>(MaxAbs(heads.Row(row)) / 127.0);  // codes of the head as it is
    for (float& x : RowOf(plain, row)) x = std::nearbyint(x / step) * step;
    reference::RoundToKvType(KvType::kQ8, RowOf(kept, row));
  }
  constexpr double kBound = 0.035;
  EXPECT_LT(ErrorOfOrdinaryColumns(kept, heads), kBound);
  EXPECT_GT(ErrorOfOrdinaryColumns(plain, heads), 2 * kBound);
  EXPECT_LT(RelativeError(kept, heads), 0.011);
  EXPECT_GT(RelativeError(plain, heads), 0.022);
}

// What a backend's pages hold are the rotated keys and the values, also for whoever reads them
// outside (page_form.h): transformed alike by writers and readers.
class StoredHeads : public OperationTest {};

TEST_P(StoredHeads, PagesHoldKeysAndValues) {
  for (const int head_dim : {20, 64, 96, 256}) {
    const AttentionSetup setup{3, 2, head_dim, 0};
    const HostMatrix contents = RandomMatrix(kPageTokens, setup.columns(), 9);
    Batch batch = PlainBatch(kPageTokens);
    const KvShape shape{1, 2, head_dim};
    const auto kv = tested_->NewKvMemory(shape, 1);
    const auto step = tested_->Upload(batch, EmptyPlan(kPageTokens));
    Tensor qkv = Fill(*tested_, contents);
    const HostMatrix given = Read(*tested_, qkv);
    tested_->RotateAndStore(*step, 0, setup.Shape(), {}, qkv, *kv);
    const PageForm form = FormOf(shape, tested_->page_type());
    std::vector<std::byte> bytes(static_cast<size_t>(form.page_bytes()));
    const std::int32_t page = 0;
    tested_->ReadPages(*kv, std::span(&page, 1), bytes);
    const auto dim = static_cast<size_t>(head_dim);
    std::vector<float> keys(dim), values(dim);
    for (int token = 0; token < kPageTokens; ++token) {
      for (size_t head = 0; head < 2; ++head) {
        ReadToken(form, bytes.data() + static_cast<std::int64_t>(head) * form.head_bytes, token,
                  keys, values);
        for (const bool value : {false, true}) {
          const auto wanted = given.Row(token).subspan((3 + head + (value ? 2 : 0)) * dim, dim);
          const std::vector<float>& found = value ? values : keys;
          double error = 0.0, squares = 0.0;
          for (size_t d = 0; d < dim; ++d) {
            error += std::pow(double{found[d]} - wanted[d], 2);
            squares += std::pow(double{wanted[d]}, 2);
          }
          // Each code is off by half a step at most: 1/254 of the head's largest, which is at most
          // its norm, and for normal values far less.
          const double step_error = GetParam().kv_type == KvType::kQ8 ? 0.012 : 0.004;
          EXPECT_LT(std::sqrt(error / squares), step_error) << head_dim << ", token " << token;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, StoredHeads, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace

}  // namespace banyan::optest
