// Matrix products by kernels of our own, over device pointers: out[r][n] = sum_k x[r][k] w[n][k].
// Both are exact references as well: each output is one chain over k in order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace banyan::cuda {

struct ProductShape {
  std::int64_t rows = 0;     // of x and out
  std::int64_t outputs = 0;  // rows of w
  std::int64_t inner = 0;    // multiple of 16: elements from row to row of x and of w
  std::int64_t out_stride = 0;
};

// Float32: a chain of fused multiply-adds. No TF32.
void MultiplyF32(cudaStream_t stream, const float* x, const float* w, const ProductShape& shape,
                 float* out);
// bf16: a chain of m16n8k16 matrix instructions. REQUIRES: w has a multiple of 16 rows.
void MultiplyBF16(cudaStream_t stream, const __nv_bfloat16* x, const __nv_bfloat16* w,
                  const ProductShape& shape, float* out);

// Adds the number of values whose bits differ to *count (device memory); rows of `stride` floats of
// which the first `columns` count.
void CountDifferences(cudaStream_t stream, const float* a, const float* b,
                      const ProductShape& shape, unsigned long long* count);
// Values of about normal spread, a function of the seed, for measuring.
void FillRandom(cudaStream_t stream, std::int64_t count, std::uint32_t seed, __nv_bfloat16* out);

}  // namespace banyan::cuda
