// Products of codes on every path of this build that the processor supports give the bits of the
// definition in integer_kernels.h. tools/test-cpu-paths runs this file and float_loops_test.cc
// under an emulator, for processors that are not at hand.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_path_fixture.h"
#include "kernels/cpu/packed_matrix.h"

namespace banyan {
namespace {

// Codes [rows, columns], the rest [rows, blocks]; with a path's groups of rows as Int8Rows says.
struct Int8Groups {
  std::vector<std::int8_t> codes;
  std::vector<float> scales, sums[3];
  std::vector<std::int32_t> starts[3];

  explicit Int8Groups(int blocks) {
    const auto count = static_cast<size_t>(blocks);
    codes.resize(count * kBlockColumns);
    scales.resize(count);
    for (int i = 0; i < 3; ++i) {
      sums[i].resize(count);
      starts[i].resize(count);
    }
  }
  Int8Blocks From(int block) {
    Int8Blocks from{&codes[block * kBlockColumns], &scales[block], {}, {}};
    for (int i = 0; i < 3; ++i) {
      from.sums[i] = &sums[i][block];
      from.starts[i] = &starts[i][block];
    }
    return from;
  }
  Int8Rows rows() const {
    Int8Rows rows{codes.data(), scales.data(), {}, {}};
    for (int i = 0; i < 3; ++i) {
      rows.sums[i] = sums[i].data();
      rows.starts[i] = starts[i].data();
    }
    return rows;
  }
};

// By groups of one row, whose blocks follow one another.
Int8Groups QuantizeRows(const VectorKernels& vector, const std::vector<float>& x, int rows,
                        int columns, int start_unit = 1) {
  const int blocks = columns / kBlockColumns;
  Int8Groups quantized(rows * blocks);
  for (int r = 0; r < rows; ++r) {
    vector.quantize_rows(x.data() + r * columns, columns, 1, blocks, start_unit,
                         quantized.From(r * blocks));
  }
  return quantized;
}

// The rows again, in a path's groups.
Int8Groups InGroups(const CpuPath& path, const Int8Groups& x, int rows, int columns) {
  const int blocks = columns / kBlockColumns, together = path.integer.rows_together;
  Int8Groups groups(rows * blocks);
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
struct QuantizedWeights {
  int outputs = 0, columns = 0, group = 32;
  bool nibbles = false, has_minima = false;
  const Codebook* book = nullptr;
  std::vector<std::int8_t> codes;
  std::vector<float> scales, minima;  // [outputs, columns / group]

  int groups() const { return columns / group; }
  int offset() const { return nibbles && !has_minima ? kNibbleOffset : 0; }
};

QuantizedWeights RandomQuantized(int outputs, int columns, int group, bool nibbles,
                                 bool has_minima) {
  QuantizedWeights w;
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

const Codebook& SomeBook() {
  static const Codebook book(std::vector<std::int8_t>{-128, -104, -83, -65, -49, -35, -22, 0, 1, 13,
                                                      25, 38, 53, 69, 89, 127});
  return book;
}

// Codes of a book instead.
QuantizedWeights NamedWeights(int outputs, int columns, int group) {
  QuantizedWeights w =
      RandomQuantized(outputs, columns, group, /*nibbles=*/true, /*has_minima=*/false);
  w.book = &SomeBook();
  for (std::int8_t& code : w.codes) code = w.book->values[static_cast<size_t>(code + 8)];
  return w;
}

std::vector<float> Defined(const QuantizedWeights& w, const Int8Groups& x, int rows) {
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

// Added to `start`, where there is one.
std::vector<float> Computed(const CpuPath& path, const QuantizedWeights& w, const Int8Groups& x,
                            int rows, const std::vector<float>* start = nullptr) {
  const QuantizedLayout layout{path.integer.interleave, w.nibbles,
                               w.nibbles ? w.offset() : path.integer.bias, w.book};
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
  if (start != nullptr) out = *start;
  const Int8Groups groups = InGroups(path, x, rows, w.columns);
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
  if (w.book != nullptr) product.book = w.book->values.data();
  product.group = w.group;
  product.scales = scales.data();
  product.minima = w.has_minima ? minima.data() : nullptr;
  product.out = out.data();
  product.out_stride = w.outputs;
  product.add = start != nullptr;
  path.integer.product(product);
  return out;
}

TEST(QuantizedLayout, GivesBackWhatWasPut) {
  for (const int interleave : {4, 8}) {
    for (const QuantizedLayout& layout :
         {QuantizedLayout{interleave, false, 0}, QuantizedLayout{interleave, false, 128},
          QuantizedLayout{interleave, true, kNibbleOffset},
          QuantizedLayout{interleave, true, 0, &SomeBook()}}) {
      Numbers numbers(3);
      std::vector<std::uint8_t> panel(static_cast<size_t>(layout.PanelBytes(2 * kBlockColumns)));
      std::vector<std::int8_t> put(16 * 2 * kBlockColumns), got(put.size());
      for (std::int8_t& code : put) {
        code = static_cast<std::int8_t>(layout.nibbles ? numbers.Below(16) - 8
                                                       : numbers.Below(256) - 128);
        if (layout.book != nullptr) code = layout.book->values[static_cast<size_t>(code + 8)];
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
      const Int8Groups x = QuantizeRows(CpuPaths().back().vector, values, rows, columns);
      for (const int group : {16, 32}) {
        for (const bool nibbles : {false, true}) {
          for (const bool minima : {false, true}) {
            const QuantizedWeights w = RandomQuantized(32, columns, group, nibbles, minima);
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

TEST(CpuPaths, ProductsOfNamedCodesAreTheDefinedOnes) {
  for (const int rows : {1, 2, 7, 8, 40}) {
    const Int8Groups x = QuantizeRows(CpuPaths().back().vector,
                                      Numbers(7).Floats(static_cast<size_t>(rows * 96)), rows, 96);
    for (const int group : {16, 32}) {
      const QuantizedWeights w = NamedWeights(32, 96, group);
      const std::vector<float> expected = Defined(w, x, rows);
      for (const CpuPath* path : SupportedPaths()) {
        ExpectSameBits(Computed(*path, w, x, rows), expected,
                       std::string(path->name) + ", " + std::to_string(rows) + " rows");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuPaths, ProductsAreAddedToWhatIsThere) {
  constexpr int kRows = 29, kColumns = 96, kOutputs = 32;
  const std::vector<float> start = Numbers(5).Floats(kRows * kOutputs);
  const Int8Groups x =
      QuantizeRows(CpuPaths().back().vector, Numbers(6).Floats(kRows * kColumns), kRows, kColumns);
  for (const bool nibbles : {false, true}) {
    const QuantizedWeights w = RandomQuantized(kOutputs, kColumns, 32, nibbles, false);
    std::vector<float> expected = Defined(w, x, kRows);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = start[i] + expected[i];
    for (const CpuPath* path : SupportedPaths()) {
      ExpectSameBits(Computed(*path, w, x, kRows, &start), expected, path->name);
    }
  }
}

// All codes -128 and 127: the largest sums there are.
TEST(CpuPaths, LargestSumsAreExact) {
  QuantizedWeights w = RandomQuantized(16, 64, 32, false, false);
  for (std::int8_t& code : w.codes) code = -128;
  for (const float sign : {1.0f, -1.0f}) {
    const Int8Groups x =
        QuantizeRows(CpuPaths().back().vector, std::vector<float>(64, sign), 1, 64);
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
    const Int8Groups quantized = QuantizeRows(path->vector, x, 1, kColumns, kUnit);
    EXPECT_EQ(quantized.codes[3], -127) << path->name;
    EXPECT_EQ(quantized.scales[0], 2.5f / 127.0f) << path->name;
    EXPECT_EQ(quantized.scales[1], 0.0f) << path->name;
    for (int i = 0; i < kColumns; ++i) {
      EXPECT_NEAR(quantized.codes[i] * quantized.scales[i / 32], x[i],
                  0.5001f * quantized.scales[i / 32] + 1e-31f);
    }
    for (int block = 0; block < kColumns / kBlockColumns; ++block) {
      std::int32_t totals[3] = {};
      for (int i = 0; i < kBlockColumns; ++i) {
        totals[0] += quantized.codes[block * kBlockColumns + i];
        totals[1 + i / kHalfColumns] += quantized.codes[block * kBlockColumns + i];
      }
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(quantized.starts[i][block], -kUnit * totals[i]) << path->name;
        EXPECT_EQ(quantized.sums[i][block], static_cast<float>(totals[i]) * quantized.scales[block])
            << path->name;
      }
    }
  }
}

// Rows of a group, quantized together, are those of one row alone.
TEST(CpuPaths, GroupsAreCodedAsTheirRows) {
  constexpr int kColumns = 5 * kBlockColumns;
  const std::vector<float> x = Numbers(13).Floats(13 * kColumns);
  for (const CpuPath* path : SupportedPaths()) {
    const Int8Groups rows = QuantizeRows(path->vector, x, 13, kColumns);
    for (const int count : {1, 2, 7, 13}) {
      Int8Groups group(count * 5);
      path->vector.quantize_rows(x.data(), kColumns, count, 5, 1, group.From(0));
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
  const QuantizedWeights w = RandomQuantized(16, 64, 32, true, true);
  for (const float broken :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = Numbers(6).Floats(3 * 64);
    x[64 + 50] = broken;
    for (const CpuPath* path : SupportedPaths()) {
      const std::vector<float> out = Computed(*path, w, QuantizeRows(path->vector, x, 3, 64), 3);
      for (int n = 0; n < 16; ++n) {
        EXPECT_TRUE(std::isfinite(out[n])) << path->name;
        EXPECT_TRUE(std::isnan(out[16 + n])) << path->name;
        EXPECT_TRUE(std::isfinite(out[32 + n])) << path->name;
      }
    }
  }
}

}  // namespace
}  // namespace banyan
