// Decisions that ship for this device are candidates that its library and kernels have, and those
// that are guessed while there is no time to measure have the bits of all others.
#include <chrono>
#include <memory>
#include <thread>

#include "kernels/cuda/products/products.h"
#include "kernels/operation_fixture.h"

namespace banyan::cuda {
namespace {

class CudaDecisions : public testing::Test {
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
  // The first of `rows` rows of a product.
  std::vector<float> FirstRow(Products& products, const DeviceMatrix& w, std::int64_t rows) const {
    const DeviceMemory x(device_, rows * w.stride * 2, "rows"),
        out(device_, rows * w.padded_rows * 4, "products");
    FillRandom(device_->stream, rows * w.stride, 6, x.As<__nv_bfloat16>());
    products.Multiply(x.As<__nv_bfloat16>(), rows, w, {ProductForm::kFloat32, out.As<void>()});
    std::vector<float> row(static_cast<size_t>(w.padded_rows));
    Check(cudaMemcpyAsync(row.data(), out.As<void>(), row.size() * 4, cudaMemcpyDeviceToHost,
                          device_->stream),
          "products");
    device_->Synchronize();
    return row;
  }

  std::shared_ptr<const Device> device_;
};

TEST_F(CudaDecisions, ShippedOnesAreLegal) {
  Products products(device_, {});
  const std::vector<std::string> illegal = products.IllegalShipped();
  EXPECT_TRUE(illegal.empty()) << illegal.size() << ", the first: " << illegal.front();
}

// A table's candidate serves without measuring, where there is a table.
TEST_F(CudaDecisions, ATablesShapeIsNotMeasured) {
  Products products(device_, {});
  if (!products.Ships(6144, 4096, ProductForm::kFloat32, 64)) GTEST_SKIP() << "not in the table";
  const DeviceMatrix w = RandomWeights(6144, 4096);
  FirstRow(products, w, 64);
  EXPECT_EQ(products.census().shipped, 1);
  EXPECT_EQ(products.census().candidates, 0);
}

TEST_F(CudaDecisions, GuessesHaveTheBitsOfMeasuredWaysAndAreMeasuredLater) {
  const DeviceMatrix w = RandomWeights(2080, 1088);  // no model's
  Products measured(device_, {false, {}, Deciding::kByMeasuring}), soon(device_, {});
  const std::int64_t counts[] = {1, 7, 12, 30, 60, 90, 120, 190, 250, 380, 500, 700};
  for (const std::int64_t rows : counts) {
    optest::ExpectSameBits(FirstRow(soon, w, rows), FirstRow(measured, w, 1),
                           std::to_string(rows) + " rows, soon");
    optest::ExpectSameBits(FirstRow(measured, w, rows), FirstRow(measured, w, 1),
                           std::to_string(rows) + " rows, measured");
  }
  EXPECT_EQ(measured.census().guessed, 0);
  ASSERT_GT(soon.census().guessed, 0);  // twelve decisions take more than the allowance
  const std::int64_t launched = soon.launches();
  EXPECT_GT(launched, 0);
  // Time passes: the guess is measured when it is used again, and serves no more.
  for (int i = 0; i < 3000 && !soon.MaySettle(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(soon.MaySettle());
  optest::ExpectSameBits(FirstRow(soon, w, 700), FirstRow(measured, w, 1), "settled");
  EXPECT_EQ(soon.launches(), launched);
}

}  // namespace
}  // namespace banyan::cuda
