// Products of rows with a packed matrix, in parallel over tiles of rows and panels. A bias, an
// addition or a gate is applied while a tile's outputs are in cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_path.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/product_tiles.h"

namespace banyan {

// Rows [begin, end).
struct RowRange {
  int begin = 0, end = 0;
};

// Quantizes rows of activations to int8. Keeps its memory from product to product.
class Int8RowBuffer {
 public:
  // `rows` rows in groups of path.integer.rows_together. The result is valid until the next call.
  // REQUIRES: columns % 32 == 0.
  Int8Rows Quantize(const float* x, std::int64_t x_stride, int rows, std::int64_t columns,
                    const CpuPath& path, ThreadPool& pool);
  // The same for consecutive ranges that start at row 0. Groups start anew with each range, so a
  // range has the codes of its rows alone; they begin at block begin * columns / 32.
  Int8Rows QuantizeRanges(const float* x, std::int64_t x_stride, std::span<const RowRange> ranges,
                          std::int64_t columns, const CpuPath& path, ThreadPool& pool);

 private:
  void Reserve(size_t row_blocks);
  Int8Blocks From(std::int64_t row_blocks);

  std::vector<std::int8_t> codes_;
  std::vector<float> scales_, sums_[3];
  std::vector<std::int32_t> starts_[3];
  std::vector<RowRange> groups_;
};

// out[r] = W x[r] (+ bias).
struct ProductRows {
  const float* x = nullptr;
  std::int64_t x_stride = 0;  // floats
  int rows = 0;
  const float* bias = nullptr;  // [w.rows]; may be null
  float* out = nullptr;
  std::int64_t out_stride = 0;  // floats; covers whole panels where `out` is W x itself
};

// Size of a tile whose outputs stay in cache until they are used.
inline constexpr int kTileRows = 96;  // a multiple of all rows_together
inline constexpr std::int64_t kTilePanels = 8;

// Scratch memory of one thread, kept from product to product.
struct alignas(128) ProductScratch {
  float outputs[kTileRows * 2 * kTilePanels * kPanelWidth];
  std::vector<std::uint8_t> bytes;  // a panel's codes, of the largest product with nibbles so far
};

// The threads and loops that compute products, and state kept from product to product.
struct ProductThreads {
  ProductThreads(const CpuPath& loops, ThreadPool& all)
      : path(loops), pool(all), divisions(all.size()), scratch(static_cast<size_t>(all.size())) {}
  const CpuPath& path;
  ThreadPool& pool;
  ProductDivisions divisions;
  Int8RowBuffer int8_rows;
  std::vector<RowRange> ranges;         // of MultiplyRuns
  std::vector<ProductScratch> scratch;  // of each thread
};

void Multiply(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads);

// out[r] += W x[r] (+ bias), for w.rows columns.
void MultiplyAndAdd(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads);

// out[r][i] = gate(y[i]) * y[n + i], with y = W x[r] (+ bias) and n = w.rows / 2. `glu` is
// the loop that applies the gate. REQUIRES: w.rows is a multiple of two panels' rows.
void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, GluLoop glu,
                   ProductThreads& threads);

// Rows that are multiplied with a matrix of their own.
struct MatrixRun {
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // may be null
  RowRange rows;
};

// out[r] = W x[r] (+ bias) for the rows of every run, with the bits of Multiply for each of them.
// `rows.bias` is not read. REQUIRES: consecutive runs that start at row 0, matrices of one shape.
void MultiplyRuns(std::span<const MatrixRun> runs, const ProductRows& rows,
                  ProductThreads& threads);

}  // namespace banyan
