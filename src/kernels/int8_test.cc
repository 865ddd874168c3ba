// int8 rows as int8.h defines them, and their products by the reference backend.
#include <bit>
#include <limits>

#include "kernels/int8.h"
#include "kernels/operation_fixture.h"
#include "tensor/narrow_floats.h"

namespace banyan::optest {

namespace {

TEST(Int8, ScaleIsTheLargestOver127) {
  const Int8Scale scale = Int8ScaleOf(254.0f);
  EXPECT_EQ(scale.scale, 2.0f);
  EXPECT_EQ(scale.inverse, 0.5f);
  EXPECT_EQ(QuantizeInt8(254.0f, scale), 127);
  EXPECT_EQ(QuantizeInt8(-254.0f, scale), -127);
  EXPECT_EQ(QuantizeInt8(0.0f, scale), 0);
}

TEST(Int8, TiesGoToEven) {
  const Int8Scale scale = Int8ScaleOf(254.0f);
  EXPECT_EQ(QuantizeInt8(1.0f, scale), 0);
  EXPECT_EQ(QuantizeInt8(3.0f, scale), 2);
  EXPECT_EQ(QuantizeInt8(5.0f, scale), 2);
  EXPECT_EQ(QuantizeInt8(-1.0f, scale), 0);
  EXPECT_EQ(QuantizeInt8(-3.0f, scale), -2);
}

// Whatever the row's largest value, no code leaves the range, and the largest gets the last code.
TEST(Int8, CodesStayInRange) {
  for (float largest = 1e-30f; largest < 1e38f; largest *= 1.37f) {
    const Int8Scale scale = Int8ScaleOf(largest);
    EXPECT_EQ(QuantizeInt8(largest, scale), 127) << largest;
    EXPECT_EQ(QuantizeInt8(-largest, scale), -127) << largest;
  }
  const Int8Scale most = Int8ScaleOf(std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(most.scale));
  EXPECT_EQ(QuantizeInt8(std::numeric_limits<float>::max(), most), 127);
}

TEST(Int8, RowsOfNothingAndRowsThatAreNotFinite) {
  for (const float largest : {0.0f, 1e-45f, 1e-38f}) {
    EXPECT_EQ(Int8ScaleOf(largest).scale, 0.0f);
    EXPECT_EQ(QuantizeInt8(largest, Int8ScaleOf(largest)), 0);
  }
  for (const float largest : {std::numeric_limits<float>::infinity(), kNaN}) {
    EXPECT_TRUE(std::isnan(Int8ScaleOf(largest).scale));
    EXPECT_EQ(QuantizeInt8(largest, Int8ScaleOf(largest)), 0);
  }
}

// Entry (i, k) of the matrix has the sign of the number of ones that i and k share.
TEST(Int8, RowsAreHadamardTransformed) {
  for (const size_t width : {size_t{128}, size_t{64}}) {
    const size_t columns = width == 64 ? 192 : 256;
    for (const size_t k : {size_t{0}, size_t{1}, size_t{6}, size_t{63}, width + 5}) {
      std::vector<float> row(columns, 0.0f);
      row[k] = 32.0f;
      HadamardRow(row);
      const float each = 32.0f * HadamardFactor(static_cast<int>(width));
      for (size_t i = 0; i < columns; ++i) {
        const bool odd = std::popcount(i & k & (width - 1)) % 2 == 1;
        ASSERT_EQ(row[i], i / width != k / width ? 0.0f : odd ? -each : each) << i << ", " << k;
      }
      HadamardRow(row);
      for (size_t i = 0; i < columns; ++i) {
        ASSERT_NEAR(row[i], i == k ? 32.0f : 0.0f, 1e-5f) << "its own inverse";
      }
    }
  }
  EXPECT_EQ(HadamardWidth(4096), 128);
  EXPECT_EQ(HadamardWidth(576), 64);
  EXPECT_EQ(HadamardWidth(100), 1);
  std::vector<float> other = {1.0f, 2.0f, 3.0f};
  HadamardRow(other);
  EXPECT_EQ(other, (std::vector<float>{1.0f, 2.0f, 3.0f}));
}

class Int8Products : public testing::Test {
 protected:
  static KernelOptions Options() {
    KernelOptions options{Precision::kMixed, KvType::kF16, 1};
    options.eight_bit_products = true;
    return options;
  }
  std::unique_ptr<Kernels> kernels_ = MakeKernels("reference", Options());

  HostMatrix Product(const HostMatrix& x, const HostMatrix& w) {
    const auto matrix = kernels_->ForProducts(LoadFloats(*kernels_, w));
    Tensor out = Poisoned(*kernels_, x.rows, w.rows);
    kernels_->MatMul(Fill(*kernels_, x), *matrix, nullptr, out);
    return Read(*kernels_, out);
  }
};

TEST_F(Int8Products, OfSmallWholeNumbersAreExact) {
  // Largest values of 127: scales are one.
  const HostMatrix x{2, 3, {127, 1, -2, 0, 127, 5}}, w{2, 3, {1, -127, 3, 127, 2, 0}};
  EXPECT_EQ(Product(x, w).values, (std::vector<float>{-6, 127 * 127 + 2, -127 * 127 + 15, 254}));
}

TEST_F(Int8Products, AreNearThoseOfTheValues) {
  const HostMatrix x = RandomMatrix(5, 300, 1), w = RandomMatrix(7, 300, 2);
  const auto plain = MakeKernels("reference", {Precision::kF32, KvType::kF32, 1});
  Tensor exact = plain->NewTensor(5, 7);
  plain->MatMul(Fill(*plain, x), *LoadFloats(*plain, w), nullptr, exact);
  // Each of 300 terms is off by half a step of either side, at random.
  ExpectNear(Product(x, w), Read(*plain, exact), [&](std::int64_t r, std::int64_t n) {
    return 4.0 * (MaxAbs(x.Row(r)) * Norm(w.Row(n)) + MaxAbs(w.Row(n)) * Norm(x.Row(r))) / 254;
  });
}

// Rows with one outlier lose less than rows that cannot be transformed.
TEST_F(Int8Products, HadamardKeepsWhatIsSmallBesideWhatIsLarge) {
  const auto error = [this](std::int64_t columns) {
    HostMatrix x = RandomMatrix(6, columns, 5);
    const HostMatrix w = RandomMatrix(9, columns, 6);
    for (std::int64_t r = 0; r < 6; ++r) {
      x.values[static_cast<size_t>(r * columns + 37 * r)] = 60.0f;
    }
    const auto plain = MakeKernels("reference", {Precision::kF32, KvType::kF32, 1});
    Tensor exact = plain->NewTensor(6, 9);
    plain->MatMul(Fill(*plain, x), *LoadFloats(*plain, w), nullptr, exact);
    const std::vector<float> wanted = Read(*plain, exact).values;
    std::vector<float> difference = Product(x, w).values;
    for (size_t i = 0; i < difference.size(); ++i) difference[i] -= wanted[i];
    return Norm(difference);
  };
  EXPECT_LT(error(512), 0.5 * error(513));
}

TEST_F(Int8Products, ABrokenRowStaysAlone) {
  HostMatrix x = RandomMatrix(3, 40, 3);
  const HostMatrix w = RandomMatrix(4, 40, 4), whole = Product(x, w);
  x.values[40 + 7] = std::numeric_limits<float>::infinity();
  const HostMatrix broken = Product(x, w);
  for (const float value : broken.Row(1)) EXPECT_TRUE(std::isnan(value));
  ExpectSameBits(broken.Row(0), whole.Row(0), "row before");
  ExpectSameBits(broken.Row(2), whole.Row(2), "row after");
}

TEST_F(Int8Products, TheCpuRefuses) {
  try {
    MakeKernels("cpu", Options());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
}

}  // namespace

}  // namespace banyan::optest
