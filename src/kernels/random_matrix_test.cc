// Random weights: the same values on every backend and in every precision, whatever the size.
#include <set>

#include "kernels/operation_fixture.h"
#include "tensor/narrow_floats.h"

namespace banyan::optest {
namespace {

// The matrix as Embed shows it: row by row, as float32.
HostMatrix Contents(Kernels& kernels, const RandomWeights& weights) {
  const auto matrix = kernels.RandomMatrix(weights);
  EXPECT_EQ(matrix->rows, weights.rows);
  EXPECT_EQ(matrix->columns, weights.columns);
  Tensor out = kernels.NewTensor(weights.rows, weights.columns);
  const auto step = kernels.Upload(PlainBatch(weights.rows), EmptyPlan(weights.rows));
  kernels.Embed(*step, *matrix, out);
  return Read(kernels, out);
}

class RandomMatrixTest : public OperationTest {};

TEST_P(RandomMatrixTest, ValuesAreTheSameOnEveryBackend) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 17}, {33, 64}, {5, 130}}) {
    const RandomWeights weights{rows, columns, 7, 0.25f};
    ExpectSameBits(Contents(*tested_, weights).values, Contents(*reference_, weights).values,
                   std::to_string(rows) + " x " + std::to_string(columns));
  }
}

// Products read the padding of rows and columns too: a random matrix must give what the same values
// give when they are loaded.
TEST_P(RandomMatrixTest, ProductsEqualThoseOfTheLoadedValues) {
  const RandomWeights weights{37, 50, 11, 0.5f};
  const auto loaded = LoadFloats(*tested_, Contents(*tested_, weights));
  const auto made = tested_->RandomMatrix(weights);
  const Tensor x = Fill(*tested_, optest::RandomMatrix(3, 50, 2));
  Tensor from_loaded = Poisoned(*tested_, 3, 37), from_made = Poisoned(*tested_, 3, 37);
  tested_->MatMul(x, *loaded, nullptr, from_loaded);
  tested_->MatMul(x, *made, nullptr, from_made);
  ExpectSameBits(Read(*tested_, from_made).values, Read(*tested_, from_loaded).values, "product");
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomMatrixTest, testing::ValuesIn(AllBackends()), BackendName);

TEST(RandomMatrix, HasTheDeviationAskedForAndDependsOnTheSeed) {
  const auto kernels = MakeKernels("reference", {});
  const HostMatrix a = Contents(*kernels, {64, 256, 1, 0.5f});
  double sum = 0.0, squares = 0.0;
  for (const float v : a.values) {
    sum += v;
    squares += double{v} * v;
    ASSERT_EQ(BF16ToFloat(FloatToBF16(v)), v);
  }
  const double count = static_cast<double>(a.values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.02);
  const HostMatrix b = Contents(*kernels, {64, 256, 2, 0.5f});
  EXPECT_NE(a.values, b.values);
  const std::set<float> first_column{a.Row(0)[0], a.Row(1)[0], a.Row(2)[0], a.Row(3)[0]};
  EXPECT_GT(first_column.size(), 2u);
}

TEST(TimeRuns, GivesOneTimePerRun) {
  const auto kernels = MakeKernels("cpu", {Precision::kF32, KvType::kF32, 1});
  int calls = 0;
  const std::vector<double> seconds =
      kernels->TimeRuns({.count = 3, .empty_caches = false}, [&] { ++calls; });
  EXPECT_EQ(calls, 3);
  ASSERT_EQ(seconds.size(), 3u);
  for (const double s : seconds) EXPECT_GE(s, 0.0);
}

}  // namespace
}  // namespace banyan::optest
