// Products of rows with a packed matrix, in parallel over tiles of rows and panels, with what
// follows them value by value.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/cpu_path.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/product_tiles.h"

namespace banyan {

// out[r] = W x[r] (+ bias).
struct ProductRows {
  const float* x = nullptr;
  std::int64_t x_stride = 0;  // floats
  int rows = 0;
  const float* bias = nullptr;  // [w.rows]; may be null
  float* out = nullptr;
  std::int64_t out_stride = 0;  // floats; covers whole panels where `out` is W x itself
};

// Outputs that stay in cache for what follows from them.
inline constexpr int kTileRows = 96;  // a multiple of all rows_together
inline constexpr std::int64_t kTilePanels = 8;

// Memory of a thread, kept from product to product.
struct alignas(128) ProductScratch {
  float outputs[kTileRows * 2 * kTilePanels * kPanelWidth];
  std::vector<std::uint8_t> bytes;  // a panel's codes, of the largest product with nibbles so far
};

// Who computes and with which loops, how products were divided among them before, and memory.
struct ProductThreads {
  ProductThreads(const CpuPath& loops, ThreadPool& all)
      : path(loops), pool(all), divisions(all.size()), scratch(static_cast<size_t>(all.size())) {}
  const CpuPath& path;
  ThreadPool& pool;
  ProductDivisions divisions;
  CodedMemory coded;
  std::vector<RowRange> ranges;         // of MultiplyRuns
  std::vector<ProductScratch> scratch;  // of each thread
};

void Multiply(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads);

// out[r] += W x[r] (+ bias), for w.rows columns.
void MultiplyAndAdd(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads);

// out[r][i] = gate(y[i]) * y[n + i], with y = W x[r] (+ bias) and n = w.rows / 2; `glu` is what
// makes it of y. REQUIRES: w.rows is a multiple of two panels' rows.
void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, GluLoop glu,
                   ProductThreads& threads);

// Rows [begin, end) that are multiplied with a matrix of their own.
struct MatrixRun {
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // may be null
  RowRange rows;
};

// out[r] = W x[r] (+ bias) for the rows of every run, with the bits of Multiply for each of them.
// `rows.bias` is not read. REQUIRES: runs one after the other from row 0 on, matrices of one shape.
void MultiplyRuns(std::span<const MatrixRun> runs, const ProductRows& rows,
                  ProductThreads& threads);

}  // namespace banyan
