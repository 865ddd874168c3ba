// Products of rows with a packed matrix, in parallel over tiles of rows and panels, with what
// follows them value by value.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
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
  std::int64_t out_stride = 0;  // floats; covers whole panels
};

// Rows as codes; memory that lives from call to call.
struct CodedMemory {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;

  CodedRows rows() const { return {codes.data(), scales.data(), sums.data()}; }
};

// Who computes and with which loops, how products were divided among them before, and memory.
struct ProductThreads {
  ProductThreads(const CpuPath& loops, ThreadPool& all)
      : path(loops), pool(all), divisions(all.size()) {}
  const CpuPath& path;
  ThreadPool& pool;
  ProductDivisions divisions;
  CodedMemory coded;
};

// Afterwards more[r] += out[r], for w.rows columns; not where `more.values` is null.
struct SumRows {
  float* values = nullptr;
  std::int64_t stride = 0;  // floats
};
void Multiply(const PackedMatrix& w, const ProductRows& rows, const SumRows& more,
              ProductThreads& threads);

// Afterwards gated[r][i] = silu(out[r][i]) * out[r][n + i], with n = w.rows / 2.
struct GatedRows {
  float* values = nullptr;
  std::int64_t stride = 0;  // floats
};
// REQUIRES: w.rows is a multiple of two panels' rows.
void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, const GatedRows& gated,
                   ProductThreads& threads);

}  // namespace banyan
