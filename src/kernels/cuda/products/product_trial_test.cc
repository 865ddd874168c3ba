// The trial of candidates to a product can refuse: a candidate that sums in another order is found
// out, also where the results are rounded to bf16 and the matrix is as small as those that are
// tried.
#include "kernels/cuda/products/product_trial.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/operation_fixture.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kRows = 8;

class CudaProductTrial : public testing::Test {
 protected:
  void SetUp() override {
    if (!optest::IsAvailable("cuda")) GTEST_SKIP() << "no GPU here";
    device_ = std::make_shared<Device>();
  }

  DeviceMatrix RandomWeights(std::int64_t outputs, std::int64_t inner) const {
    DeviceMatrix w;
    w.rows = w.padded_rows = outputs;
    w.columns = w.stride = inner;
    w.form = WeightForm::kBF16;
    w.memory = DeviceMemory(device_, outputs * inner * 2, "weights");
    FillRandom(device_->stream, outputs * inner, 5, w.memory.As<__nv_bfloat16>());
    return w;
  }

  ProductTrial::Candidate Plain() const {
    return [this](const ProductOperands& operands) {
      MultiplyBF16(device_->stream, operands);
      return true;
    };
  }
  ProductTrial::Candidate FewRows(RingSize ring) const {
    return [this, ring](const ProductOperands& operands) {
      MultiplyFewRows(device_->stream, ProductOf(operands), ring);
      if (operands.form == ProductForm::kSwiGlu) ApplySwiGlu(device_->stream, operands);
      return true;
    };
  }
  // Columns before `split` and those from it on summed apart and then added, as split-K does.
  ProductTrial::Candidate InTwoSums(std::int64_t split) const {
    return [this, split](const ProductOperands& operands) {
      const ProductOperands whole = ProductOf(operands);
      const ProductShape& shape = whole.shape;
      const DeviceMemory sums(device_, shape.rows * shape.out_stride * 4, "sums");
      for (const bool first : {true, false}) {
        ProductOperands part = whole;
        const DeviceMemory x =
            WithoutColumns(whole, first ? split : 0, first ? shape.inner : split);
        part.x = x.As<__nv_bfloat16>();
        part.form = first ? ProductForm::kFloat32 : ProductForm::kAdd;
        part.out = sums.As<void>();
        MultiplyBF16(device_->stream, part);
      }
      RowsToBf16(device_->stream, sums.As<float>(), {shape.rows, shape.outputs, shape.out_stride},
                 static_cast<__nv_bfloat16*>(whole.out));
      if (operands.form == ProductForm::kSwiGlu) ApplySwiGlu(device_->stream, operands);
      return true;
    };
  }
  // Rows with zeros in columns [begin, end).
  DeviceMemory WithoutColumns(const ProductOperands& operands, std::int64_t begin,
                              std::int64_t end) const {
    const auto rows = static_cast<size_t>(operands.shape.rows);
    const auto row_bytes = static_cast<size_t>(operands.shape.inner * 2);
    DeviceMemory x(device_, operands.shape.rows * operands.shape.inner * 2, "rows");
    Check(cudaMemcpyAsync(x.As<void>(), operands.x, rows * row_bytes, cudaMemcpyDeviceToDevice,
                          device_->stream),
          "rows");
    if (begin == end) return x;
    Check(cudaMemset2DAsync(x.As<__nv_bfloat16>() + begin, row_bytes, 0,
                            static_cast<size_t>((end - begin) * 2), rows, device_->stream),
          "rows");
    return x;
  }

  std::shared_ptr<const Device> device_;
};

TEST_F(CudaProductTrial, AnotherOrderOfTheSumsIsRefusedAlsoWhereResultsAreRounded) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{64, 4096}, {256, 1040}, {1024, 256}};
  for (const auto& [outputs, inner] : shapes) {
    const DeviceMatrix w = RandomWeights(outputs, inner);
    for (const ProductForm form : {ProductForm::kBf16, ProductForm::kSwiGlu}) {
      ProductTrial trial(device_, w, form, kRows);
      const std::string what = std::to_string(outputs) + " x " + std::to_string(inner) + ", form " +
                               std::to_string(static_cast<int>(form));
      for (const std::int64_t rows : {std::int64_t{1}, kRows}) {
        EXPECT_TRUE(trial.HasOurBits(Plain(), rows)) << what;
        for (const RingSize ring : kRingSizes) {
          if (!FewRowsCanServe(trial.OperandsFor(rows).shape)) continue;
          EXPECT_TRUE(trial.HasOurBits(FewRows(ring), rows)) << what;
        }
        // One sum after all.
        EXPECT_TRUE(trial.HasOurBits(InTwoSums(0), rows)) << what;
        for (const std::int64_t split : {inner / 2, inner / 4, 3 * inner / 4, std::int64_t{80}}) {
          EXPECT_FALSE(trial.HasOurBits(InTwoSums(split), rows)) << what << ", split at " << split;
        }
      }
    }
  }
}

TEST_F(CudaProductTrial, TimesAreOfCandidatesThatRun) {
  const DeviceMatrix w = RandomWeights(512, 1024);
  ProductTrial trial(device_, w, ProductForm::kAdd, kRows);
  const double seconds = trial.Seconds(Plain(), 3, 1.0);
  EXPECT_GT(seconds, 1e-7);
  EXPECT_LT(seconds, 1e-2);
  EXPECT_TRUE(std::isinf(trial.Seconds([](const ProductOperands&) { return false; }, 3, 1.0)));
  // Waiting for the device cannot be recorded; the stream is as before.
  const auto waits = [&](const ProductOperands& operands) {
    MultiplyBF16(device_->stream, operands);
    device_->Synchronize();
    return true;
  };
  EXPECT_TRUE(std::isinf(trial.Seconds(waits, 3, 1.0)));
  EXPECT_TRUE(trial.HasOurBits(waits, kRows));
}

}  // namespace
}  // namespace banyan::cuda
