// MatMul and LoadMatrix against the reference, every stored type, ugly shapes.
#include <algorithm>

#include "kernels/stored_matrix_fixture.h"

namespace banyan::optest {
namespace {

constexpr int kRows[] = {1, 2, 3, 7, 16, 17, 63, 129};

class MatMulTest : public OperationTest {
 protected:
  // Products of `x` (as the tested backend holds it) with both loads of the same weights.
  void Compare(const Tensor& x, const Matrix& tested, const Matrix& expected,
               const HostMatrix& weights, const std::vector<float>* bias) {
    const HostMatrix x_host = Read(*tested_, x);
    const auto tested_bias = bias == nullptr ? nullptr : tested_->LoadVector(*bias);
    const auto expected_bias = bias == nullptr ? nullptr : reference_->LoadVector(*bias);
    Tensor out = Poisoned(*tested_, x.rows, weights.rows);
    tested_->MatMul(x, tested, tested_bias.get(), out);
    Tensor wanted = reference_->NewTensor(x.rows, weights.rows);
    reference_->MatMul(Fill(*reference_, x_host), expected, expected_bias.get(), wanted);
    const HostMatrix wanted_host = Read(*reference_, wanted);
    std::vector<double> weight_norms;
    for (std::int64_t n = 0; n < weights.rows; ++n) weight_norms.push_back(Norm(weights.Row(n)));
    ExpectNear(Read(*tested_, out), wanted_host, [&](std::int64_t r, std::int64_t n) {
      const std::span<const float> row = x_host.Row(r);
      const double result = std::fabs(wanted_host.Row(r)[n]);
      // f32: a chain of k roundings of partial sums that stay below |x||w|.
      const double chain =
          static_cast<double>(row.size() + 4) * kEps32 * (Norm(row) * weight_norms[n] + result);
      if (!mixed()) return chain;
      // mixed: activations may become 8-bit codes of a scale per row, each off by at most
      // max/254 and evenly spread: six standard deviations are max/73 * |w|.
      return chain + MaxAbs(row) / 73 * weight_norms[n] + result * ActivationEps() + 1e-6;
    });
  }
};

TEST_P(MatMulTest, FloatWeightsOfAnyShape) {
  for (const int columns : {1, 5, 16, 33, 100, 257}) {
    for (const int outputs : {1, 3, 15, 64, 77}) {
      const auto stored = RandomStored(Layouts()[0], outputs, columns, columns * 31 + outputs);
      const auto tested = Load(*tested_, *stored);
      const auto expected = Load(*reference_, *stored);
      EXPECT_EQ(tested->rows, outputs);
      EXPECT_EQ(tested->columns, columns);
      EXPECT_GT(tested->bytes, 0);
      for (const int rows : kRows) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << " -> " << outputs);
        const Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 9));
        Compare(x, *tested, *expected, stored->floats, nullptr);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatMulTest, EveryStoredType) {
  for (const BlockLayout& layout : Layouts()) {
    for (const int columns : {256, 768}) {
      SCOPED_TRACE(testing::Message() << TraitsOf(layout.type).name << ", columns " << columns);
      const auto stored = RandomStored(layout, 37, columns, 5);
      const auto tested = Load(*tested_, *stored);
      const auto expected = Load(*reference_, *stored);
      const std::vector<float> bias = RandomMatrix(1, 37, 10).values;
      for (const int rows : {1, 3, 17}) {
        const Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 11));
        Compare(x, *tested, *expected, stored->floats, &bias);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Blocks of 32 allow columns that are no multiple of 64 or 256.
TEST_P(MatMulTest, SmallBlocksInOddNumber) {
  for (const BlockLayout& layout : Layouts()) {
    if (TraitsOf(layout.type).block != 32) continue;
    for (const int columns : {32, 96, 160}) {
      SCOPED_TRACE(testing::Message() << TraitsOf(layout.type).name << ", columns " << columns);
      const auto stored = RandomStored(layout, 21, columns, 6);
      Compare(Fill(*tested_, RandomMatrix(5, columns, 12)), *Load(*tested_, *stored),
              *Load(*reference_, *stored), stored->floats, nullptr);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatMulTest, StackedPartsOfDifferentTypesInAnotherOrder) {
  const auto first = RandomStored(Layouts()[0], 10, 256, 1);
  const auto second = RandomStored(Layouts()[10], 7, 256, 2);
  const auto third = RandomStored(Layouts()[7], 5, 256, 3);
  const HostTensor* parts[] = {&first->tensor, &second->tensor, &third->tensor};
  std::vector<std::int32_t> order(22);
  for (int i = 0; i < 22; ++i) order[i] = (i * 5 + 3) % 22;
  HostMatrix stacked{22, 256, {}};
  for (const auto* part : {first.get(), second.get(), third.get()}) {
    stacked.values.insert(stacked.values.end(), part->floats.values.begin(),
                          part->floats.values.end());
  }
  HostMatrix ordered{22, 256, {}};
  for (const int row : order) {
    const auto source = stacked.Row(row);
    ordered.values.insert(ordered.values.end(), source.begin(), source.end());
  }
  const auto tested = tested_->LoadMatrix(parts, order);
  EXPECT_EQ(tested->rows, 22);
  Compare(Fill(*tested_, RandomMatrix(3, 256, 13)), *tested, *LoadFloats(*reference_, ordered),
          ordered, nullptr);
}

// Rows that are coded for one part and not for another, divided among threads.
TEST_P(MatMulTest, ManyRowsMeetPartsOfDifferentTypesAsOneRowDoes) {
  constexpr int kMany = 302, kColumns = 256;
  const auto first = RandomStored(Layouts()[2], 16, kColumns, 1);  // BF16
  const auto second =
      RandomStored(Layouts()[7], 16, kColumns, 2);  // Q8_0: few panels, so that rows are divided
  const HostTensor* parts[] = {&first->tensor, &second->tensor};
  const auto w = tested_->LoadMatrix(parts, {});
  const HostMatrix x = RandomMatrix(kMany, kColumns, 14);
  Tensor out = Poisoned(*tested_, kMany, 32);
  tested_->MatMul(Fill(*tested_, x), *w, nullptr, out);
  const HostMatrix found = Read(*tested_, out);
  for (int row = 0; row < kMany; row += 7) {
    HostMatrix one{1, kColumns, {}};
    const auto values = x.Row(row);
    one.values.assign(values.begin(), values.end());
    Tensor alone = Poisoned(*tested_, 1, 32);
    tested_->MatMul(Fill(*tested_, one), *w, nullptr, alone);
    const HostMatrix expected = Read(*tested_, alone);
    ASSERT_TRUE(std::ranges::equal(found.Row(row), expected.Row(0))) << "row " << row;
  }
}

TEST_P(MatMulTest, EmbedReadsEveryStoredType) {
  for (const BlockLayout& layout : Layouts()) {
    SCOPED_TRACE(TraitsOf(layout.type).name);
    const auto stored = RandomStored(layout, 19, 256, 7);
    Tensor out = Poisoned(*tested_, 19, 256);
    tested_->Embed(*tested_->Upload(PlainBatch(19), EmptyPlan(19)), *Load(*tested_, *stored), out);
    ExpectNear(Read(*tested_, out), stored->floats, [&](std::int64_t r, std::int64_t c) {
      return std::fabs(stored->floats.Row(r)[c]) * ActivationEps();
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatMulTest, AddingAProductHasTheBitsOfProductAndAdd) {
  for (const int columns : {5, 100, 256}) {
    for (const int outputs : {3, 64, 77}) {
      const auto w = LoadFloats(*tested_, RandomMatrix(outputs, columns, 21));
      const auto bias = tested_->LoadVector(RandomMatrix(1, outputs, 22).values);
      for (const int rows : kRows) {
        for (const Vector* added : {static_cast<const Vector*>(nullptr), bias.get()}) {
          const Tensor a = Fill(*tested_, RandomMatrix(rows, columns, 23));
          const HostMatrix start = RandomMatrix(rows, outputs, 24);
          Tensor x = Fill(*tested_, start), scratch = Poisoned(*tested_, rows, outputs);
          tested_->MatMulAdd(a, *w, added, scratch, x);
          Tensor expected = Fill(*tested_, start), delta = Poisoned(*tested_, rows, outputs);
          tested_->MatMul(a, *w, added, delta);
          tested_->Add(delta, expected);
          ExpectSameBits(Read(*tested_, x).values, Read(*tested_, expected).values, "sum");
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(MatMulTest, GluOfAProduct) {
  for (const auto& [gate, columns] : {std::pair(Gate::kSilu, 33),
                                      {Gate::kSilu, 256},
                                      {Gate::kGeluTanh, 33},
                                      {Gate::kGeluTanh, 256}}) {
    for (const int inner : {3, 40, 48}) {
      const HostMatrix weights = RandomMatrix(2 * inner, columns, 25);
      const auto w = LoadFloats(*tested_, weights);
      const auto bias = tested_->LoadVector(RandomMatrix(1, 2 * inner, 26).values);
      for (const int rows : kRows) {
        for (const Vector* added : {static_cast<const Vector*>(nullptr), bias.get()}) {
          const Tensor x = Fill(*tested_, RandomMatrix(rows, columns, 27));
          Tensor scratch = Poisoned(*tested_, rows, 2 * inner);
          Tensor out = Poisoned(*tested_, rows, inner);
          tested_->MatMulGlu(x, {*w, added, gate}, scratch, out);
          Tensor product = Poisoned(*tested_, rows, 2 * inner);
          Tensor expected = Poisoned(*tested_, rows, inner);
          tested_->MatMul(x, *w, added, product);
          tested_->Glu(gate, product, expected);
          const HostMatrix parts = Read(*tested_, product);
          // Both factors may have been kept in fewer bits; the slope of gates is below 1.2.
          ExpectNear(Read(*tested_, out), Read(*tested_, expected),
                     [&](std::int64_t r, std::int64_t c) {
                       const double value = std::fabs(parts.Row(r)[c]);
                       const double up = std::fabs(parts.Row(r)[inner + c]);
                       return mixed() ? 4 * value * up * ActivationEps() + 1e-30 : 0.0;
                     });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MatMulTest, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
