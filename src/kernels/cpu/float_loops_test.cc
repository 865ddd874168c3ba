// The float32 loops of every path of this build that the processor supports give the same bits, and
// products those of std::fma. tools/test-cpu-paths runs this file, too.
#include <algorithm>
#include <functional>

#include "kernels/cpu/cpu_path_fixture.h"

namespace banyan {
namespace {

class FloatLoops : public testing::Test {
 protected:
  using Operation = std::function<std::vector<float>(const VectorKernels&)>;
  static void ExpectOneResult(const std::string& what, const Operation& operation) {
    const std::vector<float> expected = operation(CpuPaths().back().vector);
    for (const CpuPath* path : SupportedPaths()) {
      ExpectSameBits(operation(path->vector), expected, what + ", " + path->name);
    }
  }
};

TEST_F(FloatLoops, ProductsAreChainsOfFusedMultiplyAdds) {
  constexpr int kInner = 37, kPanels = 3;
  for (const int rows : {1, 2, 7, 13}) {
    std::vector<float> x = Numbers(7).Floats(static_cast<size_t>(rows * kInner));
    std::vector<float> panels = Numbers(8).Floats(kPanels * kInner * kPanelWidth);
    // Sums that cancel, and results too small to be normal.
    for (size_t i = 0; i < panels.size(); i += 3) panels[i] *= 1e-30f;
    for (size_t i = 0; i < x.size(); i += 5) x[i] *= 1e-12f;
    std::vector<float> expected(static_cast<size_t>(rows * kPanels * kPanelWidth));
    for (int r = 0; r < rows; ++r) {
      for (int n = 0; n < kPanels * kPanelWidth; ++n) {
        float sum = 0.0f;
        for (int i = 0; i < kInner; ++i) {
          const int at = (n / kPanelWidth * kInner + i) * kPanelWidth + n % kPanelWidth;
          sum = std::fma(x[r * kInner + i], panels[at], sum);
        }
        expected[r * kPanels * kPanelWidth + n] = sum;
      }
    }
    for (const CpuPath* path : SupportedPaths()) {
      std::vector<float> out(expected.size());
      PanelProduct product;
      product.x = x.data();
      product.x_stride = kInner;
      product.rows = rows;
      product.inner = kInner;
      product.panels = panels.data();
      product.panel_stride = kInner * kPanelWidth;
      product.panel_count = kPanels;
      product.out = out.data();
      product.out_stride = kPanels * kPanelWidth;
      path->vector.product_f32(product);
      ExpectSameBits(out, expected, path->name);
    }
  }
}

TEST_F(FloatLoops, StatesGoOnAlike) {
  constexpr int kKeys = 37, kTiles = 7, kRows = 5, kTaps = 4, kChannels = 45;
  for (const bool delta : {true, false}) {
    ExpectOneResult(delta ? "delta" : "Mamba-2", [&](const VectorKernels& vector) {
      std::vector<float> matrix = Numbers(1).Floats(kTiles * kKeys * kPanelWidth);
      const std::vector<float> keys = Numbers(2).Floats(kRows * kKeys);
      const std::vector<float> queries = Numbers(3).Floats(kRows * kKeys);
      const std::vector<float> values = Numbers(4).Floats(kRows * kTiles * kPanelWidth);
      const std::vector<float> decays = Numbers(5).Floats(kRows);
      const std::vector<float> strengths = Numbers(6).Floats(kRows);
      std::vector<float> out(values.size());
      ScannedHead head{matrix.data(), kKeys, kTiles, kRows};
      head.keys = keys.data();
      head.queries = queries.data();
      head.values = values.data();
      head.stride = kTiles * kPanelWidth;
      head.decays = decays.data();
      head.strengths = strengths.data();
      head.delta = delta;
      head.out = out.data();
      vector.scan(head);
      matrix.insert(matrix.end(), out.begin(), out.end());
      return matrix;
    });
  }
  ExpectOneResult("convolution", [&](const VectorKernels& vector) {
    const std::vector<float> taps = Numbers(7).Floats(kTaps * kChannels);
    const std::vector<float> rows = Numbers(8).Floats(kTaps * kChannels);
    const std::vector<float> bias = Numbers(9).Floats(kChannels);
    const float* inputs[kTaps];
    for (int i = 0; i < kTaps; ++i) inputs[i] = rows.data() + i * kChannels;
    std::vector<float> out(kChannels);
    vector.convolve({inputs, taps.data(), kChannels, kTaps, bias.data(), kChannels, out.data()});
    return out;
  });
}

// Many rows read a copy of 16-bit weights, some terms at a time; few read them as they are.
TEST_F(FloatLoops, ProductsOf16BitsAreThoseOfTheirFloats) {
  constexpr int kInner = 150, kPanels = 9, kElements = kPanels * kInner * kPanelWidth;
  const std::vector<float> values = Numbers(11).Floats(kElements);
  for (const CpuPath* path : SupportedPaths()) {
    const VectorKernels& vector = path->vector;
    for (const bool brain : {false, true}) {
      std::vector<std::uint16_t> halves(kElements);
      std::vector<float> floats(kElements);
      (brain ? vector.float_to_bf16 : vector.float_to_f16)(values.data(), kElements, halves.data());
      (brain ? vector.bf16_to_float : vector.f16_to_float)(halves.data(), kElements, floats.data());
      for (const int rows : {1, 12, 13, 24, 25, 101}) {
        const std::vector<float> x = Numbers(12).Floats(static_cast<size_t>(rows * kInner));
        PanelProduct product;
        product.x = x.data();
        product.x_stride = kInner;
        product.rows = rows;
        product.inner = kInner;
        product.panel_stride = kInner * kPanelWidth;
        product.panel_count = kPanels;
        product.out_stride = kPanels * kPanelWidth;
        for (const bool goes_on : {false, true}) {
          product.goes_on = goes_on;
          std::vector<float> expected(static_cast<size_t>(rows * kPanels * kPanelWidth), 0.5f);
          std::vector<float> out = expected;
          product.panels = floats.data();
          product.out = expected.data();
          vector.product_f32(product);
          product.panels = halves.data();
          product.out = out.data();
          (brain ? vector.product_bf16 : vector.product_f16)(product);
          ExpectSameBits(out, expected, std::string(path->name) + ", " + std::to_string(rows));
        }
      }
    }
  }
}

// Products and sums are rounded one by one, from rank 0 up, whatever is computed together.
TEST_F(FloatLoops, LowRankProductsAreTheirFormula) {
  constexpr int kColumns = 80;
  for (const int rank : {1, 16, 37}) {
    for (const int rows : {1, 8, 13}) {
      const auto floats = [](std::uint64_t seed, int count) {
        return Numbers(seed).Floats(static_cast<size_t>(count));
      };
      const std::vector<float> left = floats(13, rows * rank), right = floats(14, rank * kColumns);
      const std::vector<float> before = floats(15, rows * kColumns);
      std::vector<float> expected = before;
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          volatile float sum = 0.0f;  // nothing is fused
          for (int k = 0; k < rank; ++k) {
            const volatile float product = left[r * rank + k] * right[k * kColumns + c];
            sum = sum + product;
          }
          const volatile float scaled = 0.37f * sum;
          expected[r * kColumns + c] += scaled;
        }
      }
      for (const CpuPath* path : SupportedPaths()) {
        std::vector<float> values = before;
        path->vector.add_low_rank(
            {left.data(), rows, rank, right.data(), kColumns, 0.37f, values.data()});
        ExpectSameBits(values, expected, std::string(path->name) + ", " + std::to_string(rank));
      }
    }
  }
}

TEST_F(FloatLoops, RowsOfTheNetwork) {
  for (const int columns : {16, 77, 256}) {
    const auto count = static_cast<size_t>(columns);
    const std::vector<float> x = Numbers(9).Floats(count), weight = Numbers(10).Floats(count);
    const std::string name = std::to_string(columns) + " columns";
    ExpectOneResult("norm of " + name, [&](const VectorKernels& vector) {
      std::vector<float> out(count);
      vector.rms_norm(x.data(), weight.data(), columns, 1e-5f, out.data());
      return out;
    });
    ExpectOneResult("layer norm of " + name, [&](const VectorKernels& vector) {
      std::vector<float> out(count);
      vector.layer_norm(x.data(), weight.data(), weight.data(), columns, 1e-5f, out.data());
      return out;
    });
    ExpectOneResult("gate of " + name, [&](const VectorKernels& vector) {
      std::vector<float> out(count), gate = x;
      for (float& value : gate) value *= 20.0f;
      vector.swiglu(gate.data(), weight.data(), columns, out.data());
      return out;
    });
    ExpectOneResult("gelu of " + name, [&](const VectorKernels& vector) {
      std::vector<float> out = x;
      for (float& value : out) value *= 5.0f;
      vector.gelu(columns, out.data());
      return out;
    });
  }
}

// Scores of `rows` rows with `keys` keys, of which row r sees some; weights, then maximum and sum
// of each row. `alone`: row by row.
std::vector<float> WeightsOf(const VectorKernels& vector, int rows, int keys, bool alone) {
  constexpr std::int64_t kStride = 128, kEnds = 5;
  std::vector<float> scores = Numbers(11).Floats(rows * kStride);
  for (float& score : scores) score *= 30.0f;
  std::vector<SoftmaxRows::Keys> seen;
  for (int r = 0; r < rows; ++r) {
    seen.push_back({keys * (r % 4) / 8, r % 7 == 3 ? keys * (r % 4) / 8 : keys - r % 3 * keys / 8});
  }
  if (keys > 2) scores[2 * kStride + 2] = NAN;
  std::vector<float> ends(static_cast<size_t>(rows * kEnds));
  SoftmaxRows softmax;
  softmax.stride = kStride;
  softmax.keys = (keys + 15) / 16 * 16;
  softmax.ends_stride = kEnds;
  softmax.rows = alone ? 1 : rows;
  for (int r = 0; r < rows; r += softmax.rows) {
    softmax.scores = scores.data() + r * kStride;
    softmax.seen = seen.data() + r;
    softmax.max_and_sum = ends.data() + r * kEnds;
    vector.softmax(softmax);
  }
  scores.insert(scores.end(), ends.begin(), ends.end());
  for (float& value : scores) value = std::isnan(value) ? -7.0f : value;  // comparable
  return scores;
}

TEST_F(FloatLoops, Softmax) {
  for (const int rows : {3, 16, 37}) {
    for (const int keys : {0, 5, 16, 100, 128}) {
      const std::string name = std::to_string(rows) + " rows, " + std::to_string(keys) + " keys";
      ExpectOneResult(name, [&](const VectorKernels& vector) {
        const std::vector<float> together = WeightsOf(vector, rows, keys, false);
        EXPECT_EQ(together, WeightsOf(vector, rows, keys, true)) << name;
        return together;
      });
    }
  }
}

// The sum of a row's weights is that of sixteen lanes, halves added onto halves.
TEST_F(FloatLoops, SoftmaxAddsInOneOrder) {
  ExpectOneResult("one row", [&](const VectorKernels& vector) {
    std::vector<float> scores = Numbers(12).Floats(128);
    SoftmaxRows softmax;
    const SoftmaxRows::Keys seen{0, 128};
    float max_and_sum[2];
    softmax.scores = scores.data();
    softmax.rows = 1;
    softmax.keys = 128;
    softmax.seen = &seen;
    softmax.max_and_sum = max_and_sum;
    vector.softmax(softmax);
    float lanes[16] = {};
    for (int i = 0; i < 128; ++i) lanes[i % 16] += scores[static_cast<size_t>(i)];
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    EXPECT_EQ(max_and_sum[1], lanes[0]);
    return scores;
  });
}

}  // namespace
}  // namespace banyan
