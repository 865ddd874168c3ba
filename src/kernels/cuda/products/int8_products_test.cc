// Products in 8 bits: codes as the host makes them, every kernel and every tile with the bits of
// the plain loop, and the same through Kernels, where the reference backend has the same
// definition.
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/int8.h"
#include "kernels/operation_fixture.h"
#include "tensor/narrow_floats.h"

namespace banyan::cuda {

namespace {

using optest::HostMatrix;

constexpr std::int64_t kRowCounts[] = {1,  2,  3,  7,   8,   9,   16,  17,  31,  32,
                                       33, 64, 65, 127, 128, 129, 257, 300, 1000};
constexpr ProductForm kFormsInOne[] = {ProductForm::kFloat32, ProductForm::kAdd, ProductForm::kBias,
                                       ProductForm::kBf16};

std::string NameOf(const Int8Tile& tile) {
  return "tile " + std::to_string(tile.slabs) + " x " + std::to_string(tile.width) +
         (tile.ping_pong ? ", ping-pong" : "");
}

class CudaInt8 : public testing::Test {
 protected:
  void SetUp() override {
    if (!optest::IsAvailable("cuda")) GTEST_SKIP() << "no GPU here";
    device_ = std::make_shared<Device>();
    count_ = DeviceMemory(device_, 8, "a count");
  }

  DeviceMemory Random(std::int64_t elements, std::uint32_t seed) const {
    DeviceMemory memory(device_, elements * 2, "random values");
    FillRandom(device_->stream, elements, seed, memory.As<__nv_bfloat16>());
    return memory;
  }

  // Random weights as codes.
  std::shared_ptr<const DeviceMatrix> Weights(std::int64_t outputs, std::int64_t columns) const {
    DeviceMatrix w;
    w.rows = outputs;
    w.padded_rows = (outputs + 15) / 16 * 16;
    w.columns = columns;
    w.stride = Stride(columns);
    w.form = WeightForm::kBF16;
    w.memory = Random(w.padded_rows * w.stride, 5);
    return QuantizeMatrix(device_, w);
  }

  struct Rows {
    DeviceMemory memory;
    Int8Rows codes;
  };
  Rows RandomRows(std::int64_t rows, std::int64_t columns) const {
    const DeviceMemory x = Random(rows * Stride(columns), 6);
    Rows made;
    made.memory = DeviceMemory(device_, rows * (CodeStride(columns) + 4), "codes");
    auto* codes = made.memory.As<std::int8_t>();
    made.codes = {codes, reinterpret_cast<float*>(codes + rows * CodeStride(columns))};
    QuantizeRows(device_->stream, x.As<__nv_bfloat16>(), {rows, columns, Stride(columns)},
                 CodeReader::kWaits, made.codes);
    return made;
  }

  unsigned long long Differences(const DeviceMemory& a, const DeviceMemory& b) {
    count_.Zero();
    CountDifferences(device_->stream, a.As<void>(), b.As<void>(), {1, a.bytes() / 4}, 1,
                     count_.As<unsigned long long>());
    unsigned long long found = 0;
    Check(cudaMemcpyAsync(&found, count_.As<void>(), 8, cudaMemcpyDeviceToHost, device_->stream),
          "count");
    device_->Synchronize();
    return found;
  }

  // What `kernel` leaves of a product, on top of the same random values.
  template <typename Kernel>
  DeviceMemory Result(Int8Operands operands, const Kernel& kernel) const {
    const std::int64_t elements = operands.shape.rows * operands.shape.out_stride;
    DeviceMemory out = Random(2 * elements, 8);
    operands.out = out.As<void>();
    kernel(operands);
    return out;
  }

  void ExpectCodesOfTheHost(std::int64_t rows, std::int64_t columns);
  void ExpectAllKernelsAlike(std::int64_t outputs, std::int64_t columns);

  std::shared_ptr<const Device> device_;
  DeviceMemory count_;
};

// Of few rows, which have wide blocks, and of more rows than there are multiprocessors; rows that
// are spread by 128, by 64 and not at all.
TEST_F(CudaInt8, CodesAreThoseOfTheHost) {
  for (const std::int64_t columns :
       {1, 8, 64, 100, 128, 192, 576, 2056, 4096, 12288, 18944, 20000, 20032}) {
    ExpectCodesOfTheHost(5, columns);
    if (HasFatalFailure()) return;
  }
  for (const std::int64_t columns : {576, 1536}) ExpectCodesOfTheHost(300, columns);
}

// Row 2 is zero, row 3 has a value that is not finite.
void CudaInt8::ExpectCodesOfTheHost(std::int64_t rows, std::int64_t columns) {
  const std::int64_t stride = Stride(columns), code_stride = CodeStride(columns);
  std::vector<std::uint16_t> values(static_cast<size_t>(rows * stride), 0);
  const HostMatrix random = optest::RandomMatrix(rows, columns, 9);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float value = random.Row(r)[static_cast<size_t>(c)];
      if (r == 2) value = 0.0f;
      if (r == 3 && c == columns / 2) value = std::numeric_limits<float>::infinity();
      values[static_cast<size_t>(r * stride + c)] = FloatToBF16(value);
    }
  }
  DeviceMemory x(device_, rows * stride * 2, "rows");
  x.CopyFromHost(values.data(), x.bytes());
  const DeviceMemory memory(device_, rows * (code_stride + 4), "codes");
  const Int8Rows codes{memory.As<std::int8_t>(),
                       reinterpret_cast<float*>(memory.As<std::int8_t>() + rows * code_stride)};
  QuantizeRows(device_->stream, x.As<__nv_bfloat16>(), {rows, columns, stride}, CodeReader::kWaits,
               codes);
  std::vector<std::int8_t> found(static_cast<size_t>(memory.bytes()));
  Check(cudaMemcpyAsync(found.data(), memory.As<void>(), found.size(), cudaMemcpyDeviceToHost,
                        device_->stream),
        "codes");
  device_->Synchronize();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<float> row;
    for (std::int64_t c = 0; c < columns; ++c) {
      row.push_back(BF16ToFloat(values[static_cast<size_t>(r * stride + c)]));
    }
    HadamardRow(row);
    float largest = r == 3 ? std::numeric_limits<float>::infinity() : 0.0f;
    for (const float value : row) largest = std::max(largest, std::fabs(value));
    const Int8Scale scale = Int8ScaleOf(largest);
    float found_scale = 0.0f;
    std::memcpy(&found_scale, found.data() + rows * code_stride + r * 4, 4);
    if (r == 3) {
      EXPECT_TRUE(std::isnan(found_scale));
    } else {
      EXPECT_EQ(found_scale, scale.scale) << columns << " columns, row " << r;
    }
    for (std::int64_t c = 0; c < code_stride; ++c) {
      const int expected = c < columns ? QuantizeInt8(row[static_cast<size_t>(c)], scale) : 0;
      ASSERT_EQ(found[static_cast<size_t>(r * code_stride + c)], expected)
          << columns << " columns, row " << r << ", column " << c;
    }
  }
}

void CudaInt8::ExpectAllKernelsAlike(std::int64_t outputs, std::int64_t columns) {
  const auto w = Weights(outputs, columns);
  const Rows x = RandomRows(1000, columns);
  const DeviceMemory bias = Random(2 * w->padded_rows, 7);
  const cudaStream_t stream = device_->stream;
  for (const std::int64_t rows : kRowCounts) {
    for (const ProductForm form : kFormsInOne) {
      Int8Operands operands = Int8OperandsOf(x.codes, rows, *w, form);
      operands.bias = bias.As<float>();
      const std::string what = std::to_string(outputs) + " x " + std::to_string(columns) + ", " +
                               std::to_string(rows) + " rows, form " +
                               std::to_string(static_cast<int>(form));
      const DeviceMemory plain =
          Result(operands, [&](const auto& product) { MultiplyInt8Plain(stream, product); });
      if (Int8FewRowsCanServe(operands)) {
        for (const RingSize ring : kRingSizes) {
          const DeviceMemory found = Result(
              operands, [&](const auto& product) { MultiplyInt8FewRows(stream, product, ring); });
          ASSERT_EQ(Differences(found, plain), 0u) << what << ", few rows";
        }
      }
      if (!Int8ManyRowsCanServe(operands)) continue;
      for (const Int8Tile& tile : kInt8Tiles) {
        if (!tile.Serves(form)) continue;
        const DeviceMemory found = Result(
            operands, [&](const auto& product) { MultiplyInt8ManyRows(stream, product, tile); });
        ASSERT_EQ(Differences(found, plain), 0u) << what << ", " << NameOf(tile);
      }
    }
    // SwiGLU in one step against gate and up in memory.
    Int8Operands gated = Int8OperandsOf(x.codes, rows, *w, ProductForm::kSwiGlu);
    if (w->rows % 4 != 0 || !Int8ManyRowsCanServe(gated)) continue;
    const DeviceMemory plain = Result(gated, [&](const Int8Operands& product) {
      const DeviceMemory both(device_, rows * w->padded_rows * 2, "gate and up");
      Int8Operands inner = Int8OperandsOf(x.codes, rows, *w, ProductForm::kBf16);
      inner.out = both.As<void>();
      MultiplyInt8Plain(stream, inner);
      SwiGluRows(stream, both.As<__nv_bfloat16>(), w->padded_rows,
                 {rows, product.shape.gated, product.shape.out_stride},
                 static_cast<__nv_bfloat16*>(product.out));
    });
    for (const Int8Tile& tile : kInt8Tiles) {
      const DeviceMemory found =
          Result(gated, [&](const auto& product) { MultiplyInt8ManyRows(stream, product, tile); });
      ASSERT_EQ(Differences(found, plain), 0u)
          << outputs << " x " << columns << ", " << rows << " rows, SwiGLU, " << NameOf(tile);
    }
  }
}

TEST_F(CudaInt8, EveryWayHasTheBitsOfThePlainLoop) {
  struct Case {
    std::int64_t outputs, columns;
  };
  for (const Case& c : {Case{16, 64}, Case{48, 272}, Case{1000, 576}, Case{520, 1536},
                        Case{2064, 1100}, Case{256, 12288}}) {
    ExpectAllKernelsAlike(c.outputs, c.columns);
    if (HasFatalFailure()) return;
  }
}

// Several tiles for a block, and the order in which rows stay in the cache.
TEST_F(CudaInt8, ManyTilesOfABlock) {
  const auto w = Weights(6144, 1024);
  constexpr std::int64_t kRows = 4000;
  const Rows x = RandomRows(kRows, 1024);
  for (const ProductForm form : {ProductForm::kFloat32, ProductForm::kAdd}) {
    const Int8Operands operands = Int8OperandsOf(x.codes, kRows, *w, form);
    if (!Int8ManyRowsCanServe(operands)) GTEST_SKIP() << "for Hopper";
    const DeviceMemory plain =
        Result(operands, [&](const auto& product) { MultiplyInt8Plain(device_->stream, product); });
    for (const Int8Tile& tile : kInt8Tiles) {
      if (!tile.Serves(form)) continue;
      const DeviceMemory found = Result(operands, [&](const auto& product) {
        MultiplyInt8ManyRows(device_->stream, product, tile);
      });
      ASSERT_EQ(Differences(found, plain), 0u) << NameOf(tile);
    }
  }
}

TEST_F(CudaInt8, SwiGluWithCodesIsSwiGluAndThenCodes) {
  for (const std::int64_t columns : {8, 104, 576, 1536, 12288, 18944, 20000, 36}) {
    constexpr std::int64_t kRows = 9;
    const std::int64_t stride = Stride(columns), code_stride = CodeStride(columns);
    const DeviceMemory x = Random(kRows * Stride(2 * columns), 3);
    const RowLayout range{kRows, columns, stride};
    DeviceMemory memory[2], rows[2];
    Int8Rows codes[2];
    for (int i = 0; i < 2; ++i) {
      rows[i] = DeviceMemory(device_, kRows * stride * 2, "rows");
      rows[i].Zero();
      memory[i] = DeviceMemory(device_, kRows * (code_stride + 4), "codes");
      codes[i] = {memory[i].As<std::int8_t>(),
                  reinterpret_cast<float*>(memory[i].As<std::int8_t>() + kRows * code_stride)};
    }
    auto* apart = rows[0].As<__nv_bfloat16>();
    SwiGluRows(device_->stream, x.As<__nv_bfloat16>(), Stride(2 * columns), range, apart);
    QuantizeRows(device_->stream, apart, range, CodeReader::kWaits, codes[0]);
    SwiGluAndQuantizeRows(device_->stream, x.As<__nv_bfloat16>(), Stride(2 * columns), range,
                          rows[1].As<__nv_bfloat16>(), codes[1]);
    EXPECT_EQ(Differences(rows[0], rows[1]), 0u) << columns;
    EXPECT_EQ(Differences(memory[0], memory[1]), 0u) << columns;
  }
}

class CudaInt8Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!optest::IsAvailable("cuda")) GTEST_SKIP() << "no GPU here";
    KernelOptions options{Precision::kMixed, KvType::kBF16, 0};
    options.eight_bit_products = true;
    cuda_ = MakeKernels("cuda", options);
    reference_ = MakeKernels("reference", options);
  }
  static std::shared_ptr<const Matrix> Load(Kernels& kernels, const HostMatrix& w) {
    return kernels.ForProducts(LoadFloats(kernels, w));
  }

  std::unique_ptr<Kernels> cuda_, reference_;
};

TEST_F(CudaInt8Kernels, ProductsHaveTheBitsOfTheReference) {
  const HostMatrix bias = optest::RandomMatrix(1, 200, 2);
  struct Size {
    std::int64_t rows, columns;
  };
  for (const auto& [rows, columns] :
       {Size{1, 300}, Size{5, 300}, Size{20, 300}, Size{40, 300}, Size{130, 300}, Size{300, 300},
        Size{1, 576}, Size{20, 512}, Size{70, 576}, Size{200, 512}}) {
    const HostMatrix w = optest::RandomMatrix(200, columns, 1);
    const HostMatrix x = optest::RandomMatrix(rows, columns, 3);
    const auto product = [&](Kernels& kernels) {
      const auto added = kernels.LoadVector(bias.values);
      Tensor out = optest::Poisoned(kernels, rows, 200);
      kernels.MatMul(optest::Fill(kernels, x), *Load(kernels, w), added.get(), out);
      return optest::Read(kernels, out).values;
    };
    optest::ExpectSameBits(product(*cuda_), product(*reference_), std::to_string(rows) + " rows");
    if (HasFatalFailure()) return;
  }
}

// A layer's operations: norm with codes, product with SwiGLU, product that is added, in steps of
// every number of rows; and what stale codes would do: the same tensors again with other rows.
TEST_F(CudaInt8Kernels, ARowHasItsBitsInEveryNumberOfRows) {
  constexpr std::int64_t kHidden = 576, kInner = 1536, kMost = 300;
  const HostMatrix x = optest::RandomMatrix(kMost, kHidden, 4);
  const auto norm = cuda_->LoadVector(optest::RandomMatrix(1, kHidden, 5).values);
  const auto up = Load(*cuda_, optest::RandomMatrix(2 * kInner, kHidden, 6));
  const auto down = Load(*cuda_, optest::RandomMatrix(kHidden, kInner, 7));
  Tensor normed = cuda_->NewTensor(kMost, kHidden), inner = cuda_->NewTensor(kMost, kInner);
  Tensor scratch = cuda_->NewTensor(kMost, 2 * kInner), unused = cuda_->NewTensor(kMost, kHidden);
  const auto layer = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin;
    Tensor residual = optest::Fill(*cuda_, x.Rows(begin, end));
    Tensor n = normed.Prefix(rows), i = inner.Prefix(rows), s = scratch.Prefix(rows);
    Tensor u = unused.Prefix(rows);
    cuda_->RmsNorm(residual, *norm, 1e-6f, n);
    cuda_->MatMulGlu(n, {*up}, s, i);
    cuda_->MatMulAdd(i, *down, nullptr, u, residual);
    return optest::Read(*cuda_, residual);
  };
  const HostMatrix all = layer(0, kMost);
  for (const float value : all.values) ASSERT_TRUE(std::isfinite(value));
  for (const std::int64_t count : {1, 2, 8, 9, 31, 32, 33, 64, 65, 100, 128, 129, 256}) {
    for (const std::int64_t begin : {std::int64_t{0}, kMost - count}) {
      optest::ExpectSameBits(layer(begin, begin + count).values,
                             all.Rows(begin, begin + count).values,
                             std::to_string(count) + " rows from " + std::to_string(begin));
      if (HasFatalFailure()) return;
    }
  }
}

// Blocks of several widths share their tensors; a width that is padded is cleared before it is
// written, not after.
TEST_F(CudaInt8Kernels, GatesInATensorOfAnotherWidth) {
  constexpr std::int64_t kHidden = 32, kWide = 64;
  const HostMatrix x = optest::RandomMatrix(40, kHidden, 11);
  for (const std::int64_t inner : {24, 8}) {
    const auto up = Load(*cuda_, optest::RandomMatrix(2 * inner, kHidden, 12));
    const auto gated = [&](Tensor scratch, Tensor out, std::int64_t rows) {
      cuda_->MatMulGlu(optest::Fill(*cuda_, x.Rows(0, rows)), {*up}, scratch, out);
      return optest::Read(*cuda_, out).values;
    };
    for (const std::int64_t rows : {1, 16, 17, 40}) {
      const auto alone =
          gated(cuda_->NewTensor(rows, 2 * inner), cuda_->NewTensor(rows, inner), rows);
      const Tensor scratch = cuda_->NewTensor(rows, 2 * kWide), out = cuda_->NewTensor(rows, kWide);
      optest::ExpectSameBits(gated(scratch.Narrow(rows, 2 * inner), out.Narrow(rows, inner), rows),
                             alone, std::to_string(rows) + " rows of " + std::to_string(inner));
    }
  }
}

// The norm's own codes are those of its bf16 rows: a product after reading the rows back, which
// makes codes anew, has the same bits.
TEST_F(CudaInt8Kernels, CodesOfTheNormAreThoseOfItsRows) {
  for (const std::int64_t columns : {100, 576, 4096, 5000, 12288, 20000}) {
    const HostMatrix x = optest::RandomMatrix(3, columns, 8);
    const auto norm = cuda_->LoadVector(optest::RandomMatrix(1, columns, 9).values);
    const auto w = Load(*cuda_, optest::RandomMatrix(32, columns, 10));
    Tensor normed = cuda_->NewTensor(3, columns);
    cuda_->RmsNorm(optest::Fill(*cuda_, x), *norm, 1e-6f, normed);
    Tensor first = optest::Poisoned(*cuda_, 3, 32), second = optest::Poisoned(*cuda_, 3, 32);
    cuda_->MatMul(normed, *w, nullptr, first);
    cuda_->MatMul(optest::Fill(*cuda_, optest::Read(*cuda_, normed)), *w, nullptr, second);
    optest::ExpectSameBits(optest::Read(*cuda_, first).values, optest::Read(*cuda_, second).values,
                           std::to_string(columns) + " columns");
  }
}

TEST_F(CudaInt8Kernels, QuantisedWeightsAreUnpackedFirst) {
  KernelOptions options = cuda_->options();
  options.weights = WeightResidency::kCompact;
  const auto quantised = MakeKernels("cuda", options);
  options.weights = WeightResidency::kConverted;
  const auto converted = MakeKernels("cuda", options);
  std::vector<std::uint8_t> bytes;  // Q8_0: a half scale and 32 codes
  std::mt19937 generator(11);
  constexpr std::int64_t kOutputs = 48, kColumns = 96;
  for (std::int64_t block = 0; block < kOutputs * kColumns / 32; ++block) {
    bytes.push_back(static_cast<std::uint8_t>(generator() % 256));
    bytes.push_back(0x2c);  // about 1 / 16
    for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<std::uint8_t>(generator() % 256));
  }
  const HostTensor tensor{
      "weights", DType::kQ8_0, {kOutputs, kColumns}, std::as_bytes(std::span(bytes))};
  const HostTensor* part = &tensor;
  const HostMatrix x = optest::RandomMatrix(4, kColumns, 12);
  const auto product = [&](Kernels& kernels) {
    const auto w = kernels.ForProducts(kernels.LoadMatrix(std::span(&part, 1), {}));
    Tensor out = optest::Poisoned(kernels, 4, kOutputs);
    kernels.MatMul(optest::Fill(kernels, x), *w, nullptr, out);
    return optest::Read(kernels, out).values;
  };
  optest::ExpectSameBits(product(*quantised), product(*converted), "compact and converted");
}

}  // namespace

}  // namespace banyan::cuda
