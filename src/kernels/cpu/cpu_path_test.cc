// Every path of this build that the processor supports gives the same bits, and products of codes
// give those of the definition in integer_kernels.h. tools/test-cpu-paths runs this file alone
// under an emulator, for processors that are not at hand.
#include "kernels/cpu/cpu_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/code_panels.h"

namespace banyan {
namespace {

// Numbers that are the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint32_t Bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  int Below(int end) { return static_cast<int>(Bits() % static_cast<std::uint32_t>(end)); }
  float Uniform() {
    return static_cast<float>(static_cast<int>(Bits() >> 8) - (1 << 23)) * 0x1p-23f;
  }
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Uniform();
    return values;
  }

 private:
  std::uint64_t state_;
};

void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << what << ", value " << i << ": " << found[i] << " and " << expected[i];
  }
}

std::vector<const CpuPath*> SupportedPaths() {
  std::vector<const CpuPath*> found;
  for (const CpuPath& path : CpuPaths()) {
    if (path.supported()) found.push_back(&path);
  }
  return found;
}

// Codes [rows, columns], the rest [rows, blocks]; with a path's groups of rows as CodedRows says.
struct Coded {
  std::vector<std::int8_t> codes;
  std::vector<float> scales, sums[3];
  std::vector<std::int32_t> starts[3];

  explicit Coded(int blocks) {
    const auto count = static_cast<size_t>(blocks);
    codes.resize(count * kBlockColumns);
    scales.resize(count);
    for (int i = 0; i < 3; ++i) {
      sums[i].resize(count);
      starts[i].resize(count);
    }
  }
  CodedBlocks From(int block) {
    CodedBlocks from{&codes[block * kBlockColumns], &scales[block], {}, {}};
    for (int i = 0; i < 3; ++i) {
      from.sums[i] = &sums[i][block];
      from.starts[i] = &starts[i][block];
    }
    return from;
  }
  CodedRows rows() const {
    CodedRows rows{codes.data(), scales.data(), {}, {}};
    for (int i = 0; i < 3; ++i) {
      rows.sums[i] = sums[i].data();
      rows.starts[i] = starts[i].data();
    }
    return rows;
  }
};

// By groups of one row, whose blocks follow one another.
Coded CodeRows(const VectorKernels& vector, const std::vector<float>& x, int rows, int columns,
               int start_unit = 1) {
  const int blocks = columns / kBlockColumns;
  Coded coded(rows * blocks);
  for (int r = 0; r < rows; ++r) {
    vector.code_rows(x.data() + r * columns, columns, 1, blocks, start_unit,
                     coded.From(r * blocks));
  }
  return coded;
}

// The rows again, in a path's groups.
Coded InGroups(const CpuPath& path, const Coded& x, int rows, int columns) {
  const int blocks = columns / kBlockColumns, together = path.integer.rows_together;
  Coded groups(rows * blocks + kRowsPastEnd);
  for (int r = 0; r < rows; ++r) {
    const int first = r / together * together, count = std::min(together, rows - first);
    for (int block = 0; block < blocks; ++block) {
      const int from = r * blocks + block, to = first * blocks + block * count + (r - first);
      std::memcpy(&groups.codes[to * kBlockColumns], &x.codes[from * kBlockColumns], kBlockColumns);
      groups.scales[to] = x.scales[from];
      for (int i = 0; i < 3; ++i) {
        groups.sums[i][to] = x.sums[i][from];
        groups.starts[i][to] = path.integer.start_unit * x.starts[i][from];
      }
    }
  }
  return groups;
}

// Weights as codes [outputs, columns], whatever the layout of a path.
struct CodedWeights {
  int outputs = 0, columns = 0, group = 32;
  bool nibbles = false, has_minima = false;
  std::vector<std::int8_t> codes;
  std::vector<float> scales, minima;  // [outputs, columns / group]

  int groups() const { return columns / group; }
  int offset() const { return nibbles && !has_minima ? kNibbleOffset : 0; }
};

CodedWeights RandomWeights(int outputs, int columns, int group, bool nibbles, bool has_minima) {
  CodedWeights w;
  w.outputs = outputs;
  w.columns = columns;
  w.group = group;
  w.nibbles = nibbles;
  w.has_minima = has_minima;
  Numbers numbers(static_cast<std::uint64_t>(outputs * 1000 + columns + group));
  w.codes.resize(static_cast<size_t>(outputs * columns));
  for (std::int8_t& code : w.codes) {
    // Runs of extreme codes too: sums of 16 bits would not hold them.
    const int any = nibbles ? numbers.Below(16) - w.offset() : numbers.Below(256) - 128;
    const int extreme = nibbles ? (numbers.Below(2) == 0 ? 0 : 15) - w.offset() : -128;
    code = static_cast<std::int8_t>(numbers.Below(4) == 0 ? any : extreme);
  }
  w.scales = numbers.Floats(static_cast<size_t>(outputs * w.groups()));
  if (has_minima) w.minima = numbers.Floats(w.scales.size());
  return w;
}

std::vector<float> Defined(const CodedWeights& w, const Coded& x, int rows) {
  std::vector<float> out(static_cast<size_t>(rows * w.outputs));
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < w.outputs; ++n) {
      float sum = 0.0f;
      for (int g = 0; g < w.groups(); ++g) {
        std::int32_t products = 0, codes = 0;
        for (int c = g * w.group; c < (g + 1) * w.group; ++c) {
          products += w.codes[n * w.columns + c] * x.codes[r * w.columns + c];
          codes += x.codes[r * w.columns + c];
        }
        const float scale = x.scales[(r * w.columns + g * w.group) / kBlockColumns];
        const size_t at = static_cast<size_t>(n * w.groups() + g);
        sum = std::fma(static_cast<float>(products), w.scales[at] * scale, sum);
        if (w.has_minima) sum = std::fma(-w.minima[at], static_cast<float>(codes) * scale, sum);
      }
      out[static_cast<size_t>(r * w.outputs + n)] = sum;
    }
  }
  return out;
}

std::vector<float> Computed(const CpuPath& path, const CodedWeights& w, const Coded& x, int rows) {
  const CodeLayout layout{path.integer.interleave, w.nibbles,
                          w.nibbles ? w.offset() : path.integer.bias};
  const std::int64_t bytes = layout.PanelBytes(w.columns);
  const int panels = w.outputs / kPanelWidth;
  std::vector<std::uint8_t> packed(static_cast<size_t>(bytes * panels));
  std::vector<float> scales(w.scales.size()), minima(w.minima.size());
  for (int n = 0; n < w.outputs; ++n) {
    const int panel = n / kPanelWidth, lane = n % kPanelWidth;
    const std::int8_t* codes = &w.codes[n * w.columns];
    for (int block = 0; block < w.columns / kBlockColumns; ++block) {
      layout.PutBlock(packed.data() + panel * bytes, block, lane, codes + block * kBlockColumns);
    }
    for (int g = 0; g < w.groups(); ++g) {
      const size_t to = static_cast<size_t>((panel * w.groups() + g) * kPanelWidth + lane);
      scales[to] = w.scales[n * w.groups() + g];
      if (w.has_minima) minima[to] = w.minima[n * w.groups() + g];
    }
  }
  std::vector<float> out(static_cast<size_t>(rows * w.outputs),
                         std::numeric_limits<float>::quiet_NaN());
  const Coded groups = InGroups(path, x, rows, w.columns);
  IntegerProduct product;
  product.x = groups.rows();
  product.rows = rows;
  product.columns = w.columns;
  product.panels = packed.data();
  product.panel_stride = bytes;
  product.panel_count = panels;
  product.nibbles = w.nibbles;
  std::vector<std::uint8_t> scratch(static_cast<size_t>(w.columns * kPanelWidth));
  product.scratch = scratch.data();
  product.offset = w.offset();
  product.group = w.group;
  product.scales = scales.data();
  product.minima = w.has_minima ? minima.data() : nullptr;
  product.out = out.data();
  product.out_stride = w.outputs;
  path.integer.product(product);
  return out;
}

TEST(CodeLayout, GivesBackWhatWasPut) {
  for (const int interleave : {4, 8}) {
    for (const CodeLayout& layout :
         {CodeLayout{interleave, false, 0}, CodeLayout{interleave, false, 128},
          CodeLayout{interleave, true, kNibbleOffset}}) {
      Numbers numbers(3);
      std::vector<std::uint8_t> panel(static_cast<size_t>(layout.PanelBytes(2 * kBlockColumns)));
      std::vector<std::int8_t> put(16 * 2 * kBlockColumns), got(put.size());
      for (std::int8_t& code : put) {
        code = static_cast<std::int8_t>(layout.nibbles ? numbers.Below(16) - 8
                                                       : numbers.Below(256) - 128);
      }
      for (int i = 0; i < 32; ++i)
        layout.PutBlock(panel.data(), i % 2, i / 2, &put[i * kBlockColumns]);
      for (int i = 0; i < 32; ++i)
        layout.GetBlock(panel.data(), i % 2, i / 2, &got[i * kBlockColumns]);
      EXPECT_EQ(put, got);
    }
  }
}

TEST(CpuPaths, LastOneIsSupportedEverywhere) {
  EXPECT_STREQ(CpuPaths().back().name, "portable");
  EXPECT_TRUE(CpuPaths().back().supported());
}

TEST(CpuPaths, ProductsOfCodesAreTheDefinedOnes) {
  for (const int columns : {32, 96, 256}) {
    for (const int rows : {1, 2, 3, 5, 8, 13, 18, 23, 100}) {
      Numbers numbers(static_cast<std::uint64_t>(rows));
      std::vector<float> values = numbers.Floats(static_cast<size_t>(rows * columns));
      for (float& value : values) value *= numbers.Below(3) == 0 ? 1.0f : 0.01f;
      const Coded x = CodeRows(CpuPaths().back().vector, values, rows, columns);
      for (const int group : {16, 32}) {
        for (const bool nibbles : {false, true}) {
          for (const bool minima : {false, true}) {
            const CodedWeights w = RandomWeights(32, columns, group, nibbles, minima);
            const std::vector<float> expected = Defined(w, x, rows);
            for (const CpuPath* path : SupportedPaths()) {
              ExpectSameBits(Computed(*path, w, x, rows), expected,
                             std::string(path->name) + ", " + std::to_string(columns) +
                                 " columns, " + std::to_string(rows) + " rows, group " +
                                 std::to_string(group) + (nibbles ? ", nibbles" : "") +
                                 (minima ? ", minima" : ""));
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// All codes -128 and 127: the largest sums there are.
TEST(CpuPaths, LargestSumsAreExact) {
  CodedWeights w = RandomWeights(16, 64, 32, false, false);
  for (std::int8_t& code : w.codes) code = -128;
  for (const float sign : {1.0f, -1.0f}) {
    const Coded x = CodeRows(CpuPaths().back().vector, std::vector<float>(64, sign), 1, 64);
    for (const CpuPath* path : SupportedPaths()) {
      ExpectSameBits(Computed(*path, w, x, 1), Defined(w, x, 1), path->name);
    }
  }
}

TEST(CpuPaths, RowsAreCodedByTheNearestCodes) {
  constexpr int kColumns = 96;
  std::vector<float> x = Numbers(5).Floats(kColumns);
  x[3] = -2.5f;                                                  // the largest of the first block
  for (int i = 32; i < 64; ++i) x[i] = i == 40 ? 1e-32f : 0.0f;  // next to nothing
  for (const CpuPath* path : SupportedPaths()) {
    constexpr int kUnit = 128;
    const Coded coded = CodeRows(path->vector, x, 1, kColumns, kUnit);
    EXPECT_EQ(coded.codes[3], -127) << path->name;
    EXPECT_EQ(coded.scales[0], 2.5f / 127.0f) << path->name;
    EXPECT_EQ(coded.scales[1], 0.0f) << path->name;
    for (int i = 0; i < kColumns; ++i) {
      EXPECT_NEAR(coded.codes[i] * coded.scales[i / 32], x[i],
                  0.5001f * coded.scales[i / 32] + 1e-31f);
    }
    for (int block = 0; block < kColumns / kBlockColumns; ++block) {
      std::int32_t totals[3] = {};
      for (int i = 0; i < kBlockColumns; ++i) {
        totals[0] += coded.codes[block * kBlockColumns + i];
        totals[1 + i / kHalfColumns] += coded.codes[block * kBlockColumns + i];
      }
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(coded.starts[i][block], -kUnit * totals[i]) << path->name;
        EXPECT_EQ(coded.sums[i][block], static_cast<float>(totals[i]) * coded.scales[block])
            << path->name;
      }
    }
  }
}

// Rows of a group, coded together, are those of one row alone.
TEST(CpuPaths, GroupsAreCodedAsTheirRows) {
  constexpr int kColumns = 5 * kBlockColumns;
  const std::vector<float> x = Numbers(13).Floats(13 * kColumns);
  for (const CpuPath* path : SupportedPaths()) {
    const Coded rows = CodeRows(path->vector, x, 13, kColumns);
    for (const int count : {1, 2, 7, 13}) {
      Coded group(count * 5);
      path->vector.code_rows(x.data(), kColumns, count, 5, 1, group.From(0));
      for (int r = 0; r < count; ++r) {
        for (int block = 0; block < 5; ++block) {
          const int at = block * count + r, alone = r * 5 + block;
          EXPECT_EQ(std::memcmp(&group.codes[at * kBlockColumns],
                                &rows.codes[alone * kBlockColumns], kBlockColumns),
                    0);
          EXPECT_EQ(group.scales[at], rows.scales[alone]) << path->name;
          for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(group.sums[i][at], rows.sums[i][alone]) << path->name;
            EXPECT_EQ(group.starts[i][at], rows.starts[i][alone]) << path->name;
          }
        }
      }
    }
  }
}

TEST(CpuPaths, BrokenNumbersSpoilTheirRowAlone) {
  const CodedWeights w = RandomWeights(16, 64, 32, true, true);
  for (const float broken :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = Numbers(6).Floats(3 * 64);
    x[64 + 50] = broken;
    for (const CpuPath* path : SupportedPaths()) {
      const std::vector<float> out = Computed(*path, w, CodeRows(path->vector, x, 3, 64), 3);
      for (int n = 0; n < 16; ++n) {
        EXPECT_TRUE(std::isfinite(out[n])) << path->name;
        EXPECT_TRUE(std::isnan(out[16 + n])) << path->name;
        EXPECT_TRUE(std::isfinite(out[32 + n])) << path->name;
      }
    }
  }
}

// The float32 loops: the same bits from every path, and the bits of std::fma.
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
