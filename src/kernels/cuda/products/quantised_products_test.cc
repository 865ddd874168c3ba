// Weights that stay quantised give the bits of weights that were converted, in every product, for
// every number of rows, and as an embedding.
#include "kernels/stored_matrix_fixture.h"

namespace banyan::optest {

namespace {

constexpr std::int64_t kRowCounts[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 100, 128, 129, 300};

class CudaQuantised : public testing::Test {
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

  static const BlockLayout& LayoutOf(DType type) {
    for (const BlockLayout& layout : Layouts()) {
      if (layout.type == type) return layout;
    }
    throw std::logic_error("no such layout");
  }

  struct Pair {
    std::shared_ptr<const Matrix> converted, quantised;
  };
  Pair LoadBoth(std::span<const HostTensor* const> parts,
                std::span<const std::int32_t> order = {}) const {
    return {converted_->LoadMatrix(parts, order), quantised_->LoadMatrix(parts, order)};
  }

  // All three operations on rows of every count.
  void ExpectSameProducts(const Pair& w, const std::string& what) {
    const HostMatrix x = RandomMatrix(300, w.converted->columns, 21);
    const HostMatrix residual = RandomMatrix(300, w.converted->rows, 22);
    for (const std::int64_t count : kRowCounts) {
      const auto results = [&](Kernels& kernels, const Matrix& matrix) {
        std::vector<float> all;
        const Tensor in = Fill(kernels, x.Rows(0, count));
        Tensor out = Poisoned(kernels, count, matrix.rows);
        kernels.MatMul(in, matrix, nullptr, out);
        Tensor sum = Fill(kernels, residual.Rows(0, count));
        Tensor scratch = Poisoned(kernels, count, matrix.rows);
        kernels.MatMulAdd(in, matrix, nullptr, scratch, sum);
        std::vector<Tensor> outputs = {out, sum};
        if (matrix.rows % 2 == 0) {
          Tensor gated = Poisoned(kernels, count, matrix.rows / 2);
          kernels.MatMulGlu(in, {matrix}, scratch, gated);
          outputs.push_back(gated);
        }
        for (const Tensor& output : outputs) {
          const std::vector<float> values = Read(kernels, output).values;
          all.insert(all.end(), values.begin(), values.end());
        }
        return all;
      };
      ExpectSameBits(results(*quantised_, *w.quantised), results(*converted_, *w.converted),
                     what + ", " + std::to_string(count) + " rows");
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Kernels> converted_, quantised_;
};

TEST_F(CudaQuantised, ProductsHaveTheBitsOfConvertedWeights) {
  struct Case {
    DType type;
    std::int64_t rows, columns;
  };
  for (const Case& c :
       {Case{DType::kQ8_0, 40, 96}, Case{DType::kQ8_0, 1000, 1056}, Case{DType::kQ4_0, 33, 32},
        Case{DType::kQ4_0, 520, 480}, Case{DType::kQ4_K, 48, 256}, Case{DType::kQ4_K, 1026, 768},
        Case{DType::kQ6_K, 70, 256}, Case{DType::kQ6_K, 256, 768}, Case{DType::kQ4_1, 33, 32},
        Case{DType::kQ4_1, 520, 480}, Case{DType::kQ5_K, 48, 256}, Case{DType::kQ5_K, 1026, 768},
        Case{DType::kIQ4_NL, 33, 32}, Case{DType::kIQ4_NL, 520, 480}, Case{DType::kMXFP4, 33, 32},
        Case{DType::kMXFP4, 520, 480},
        // By the kernel for 64 columns at a time: parts of a stage, many units of outputs a warp.
        Case{DType::kQ8_0, 1008, 1088}, Case{DType::kQ4_0, 528, 448}, Case{DType::kQ4_1, 96, 64},
        Case{DType::kMXFP4, 1040, 704}, Case{DType::kIQ4_NL, 480, 320},
        Case{DType::kQ4_0, 25632, 128}}) {
    const auto stored = RandomStored(LayoutOf(c.type), c.rows, c.columns, 23);
    const HostTensor* part = &stored->tensor;
    const Pair w = LoadBoth(std::span(&part, 1));
    EXPECT_LT(w.quantised->bytes, w.converted->bytes);
    ExpectSameProducts(w, TraitsOf(c.type).name);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaQuantised, StackedPartsOfSeveralTypesInAnotherOrder) {
  const auto query = RandomStored(LayoutOf(DType::kQ4_K), 64, 512, 24);
  const auto key = RandomStored(LayoutOf(DType::kQ8_0), 32, 512, 25);
  const auto value = RandomStored(LayoutOf(DType::kQ6_K), 32, 512, 26);
  const HostTensor* parts[] = {&query->tensor, &key->tensor, &value->tensor};
  std::vector<std::int32_t> order;
  for (std::int32_t row = 0; row < 128; ++row) {
    order.push_back(row < 96 ? row / 16 * 16 + (row * 7) % 16 : row);
  }
  for (const bool reorder : {false, true}) {
    const Pair w =
        LoadBoth(parts, reorder ? std::span<const std::int32_t>(order) : std::span<const int>{});
    EXPECT_LT(2 * w.quantised->bytes, w.converted->bytes + w.converted->bytes / 4);
    ExpectSameProducts(w, reorder ? "reordered" : "stacked");
    if (HasFatalFailure()) return;
  }
}

// They are stored as one part.
TEST_F(CudaQuantised, StackedPartsOfOneType) {
  const auto query = RandomStored(LayoutOf(DType::kQ8_0), 64, 512, 32);
  const auto key = RandomStored(LayoutOf(DType::kQ8_0), 32, 512, 33);
  const auto value = RandomStored(LayoutOf(DType::kQ8_0), 24, 512, 34);
  const HostTensor* parts[] = {&query->tensor, &key->tensor, &value->tensor};
  ExpectSameProducts(LoadBoth(parts), "stacked");
}

// A type without a quantised form, parts that do not begin at a tile, rows of several parts mixed.
TEST_F(CudaQuantised, OthersAreConverted) {
  const auto plain = RandomStored(LayoutOf(DType::kQ5_1), 32, 512, 27);
  const auto q8 = RandomStored(LayoutOf(DType::kQ8_0), 24, 512, 28);
  const auto q4 = RandomStored(LayoutOf(DType::kQ4_0), 40, 512, 29);
  const HostTensor* with_plain[] = {&q8->tensor, &plain->tensor};
  const HostTensor* unaligned[] = {&q8->tensor, &q4->tensor};
  std::vector<std::int32_t> mixed;
  for (std::int32_t row = 0; row < 64; ++row) mixed.push_back((row * 37) % 64);
  for (const Pair& w : {LoadBoth(with_plain), LoadBoth(unaligned), LoadBoth(unaligned, mixed)}) {
    EXPECT_EQ(w.quantised->bytes, w.converted->bytes);
    ExpectSameProducts(w, "converted");
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaQuantised, EmbeddingsAreTheSame) {
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ4_1,
                           DType::kQ5_K, DType::kIQ4_NL}) {
    const auto stored = RandomStored(LayoutOf(type), 37, 512, 30);
    const HostTensor* part = &stored->tensor;
    const Pair w = LoadBoth(std::span(&part, 1));
    const auto embedded = [&](Kernels& kernels, const Matrix& table) {
      Tensor out = Poisoned(kernels, 37, 512);
      kernels.Embed(*kernels.Upload(PlainBatch(37), EmptyPlan(37)), table, out);
      return Read(kernels, out).values;
    };
    ExpectSameBits(embedded(*quantised_, *w.quantised), embedded(*converted_, *w.converted),
                   TraitsOf(type).name);
  }
}

// What the device converts at load is what the host's functions give.
TEST_F(CudaQuantised, ConversionsOnTheDeviceAreThoseOfTheHost) {
  for (const BlockLayout& layout : Layouts()) {
    for (const std::int64_t columns : {std::int64_t{256}, std::int64_t{768}, std::int64_t{40}}) {
      if (columns % TraitsOf(layout.type).block != 0) continue;
      const auto stored = RandomStored(layout, 37, columns, 31);
      const auto loaded = Load(*converted_, *stored);
      Tensor out = Poisoned(*converted_, 37, columns);
      converted_->Embed(*converted_->Upload(PlainBatch(37), EmptyPlan(37)), *loaded, out);
      std::vector<float> expected;
      for (const float value : stored->floats.values) {
        expected.push_back(BF16ToFloat(FloatToBF16(value)));
      }
      // Random f16 bits hold NaN: equal as such, whatever its bits.
      std::vector<float> found = Read(*converted_, out).values;
      for (size_t i = 0; i < found.size(); ++i) {
        if (std::isnan(found[i]) && std::isnan(expected[i])) found[i] = expected[i];
      }
      ExpectSameBits(found, expected, TraitsOf(layout.type).name);
    }
  }
}

}  // namespace

}  // namespace banyan::optest
