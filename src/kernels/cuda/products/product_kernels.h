// Matrix products by kernels of our own, over device pointers: sum_k x[r][k] w[n][k]. Both are
// exact references as well: each output is one chain over k in order. Also what the comparison with
// the library's algorithms needs. The kernel that is fast for few rows is in few_rows.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace banyan::cuda {

// How a product leaves its float32 sums.
enum class ProductForm {
  kFloat32,  // out = sum, float32
  kAdd,      // out = out + sum, float32, rounded once
  kBias,     // out = sum + bias, float32, rounded once more
  kBf16,     // out = sum rounded to bf16
  kSwiGlu,   // out = silu(gate) * up rounded to bf16, gate and up being such outputs
};
inline std::int64_t ElementBytes(ProductForm form) {
  return form == ProductForm::kBf16 || form == ProductForm::kSwiGlu ? 2 : 4;
}

struct ProductShape {
  std::int64_t rows = 0;     // of x and out
  std::int64_t outputs = 0;  // rows of w
  std::int64_t inner = 0;    // multiple of 16: elements from row to row of x and of w
  std::int64_t out_stride = 0;
  std::int64_t gated = 0;  // kSwiGlu: columns of out; the rows of w of gate, then those of up
};

// Float32: a chain of fused multiply-adds. No TF32. `form` is kFloat32 or kAdd.
void MultiplyF32(cudaStream_t stream, const float* x, const float* w, const ProductShape& shape,
                 ProductForm form, float* out);

// Operands of a bf16 product. REQUIRES: 16-byte aligned, w has a multiple of 16 rows, out_stride
// and outputs are even.
struct ProductOperands {
  const __nv_bfloat16* x = nullptr;  // [rows, inner]
  const __nv_bfloat16* w = nullptr;  // [outputs, inner]
  ProductShape shape;
  ProductForm form = ProductForm::kFloat32;
  void* out = nullptr;               // float or bf16 [rows, out_stride]
  const float* bias = nullptr;       // [outputs], for kBias
  __nv_bfloat16* scratch = nullptr;  // [rows, outputs], for kSwiGlu; left undefined
  bool w_is_fresh =
      false;  // an earlier kernel of the stream may write w: no fetching before it ends
};
// A chain of m16n8k16 matrix instructions; kSwiGlu in the two steps below.
void MultiplyBF16(cudaStream_t stream, const ProductOperands& operands);

// kSwiGlu in two steps, for ways that know no more than products: gate and up to the scratch, and
// from there to the output.
ProductOperands GateAndUp(const ProductOperands& operands);
void ApplySwiGlu(cudaStream_t stream, const ProductOperands& operands);

// For the choice of algorithms. Rows of 32-bit words without gaps.
struct WordRows {
  std::int64_t rows = 0, words = 0;
};
// Adds the number of words of `found` that differ from row r % period of `expected` to *count.
void CountDifferences(cudaStream_t stream, const void* found, const void* expected, WordRows range,
                      std::int64_t period, unsigned long long* count);
// out[r] = x[r % period].
void RepeatRows(cudaStream_t stream, const void* x, WordRows range, std::int64_t period, void* out);
// Values of about normal spread, a function of the seed, for measuring.
void FillRandom(cudaStream_t stream, std::int64_t count, std::uint32_t seed, __nv_bfloat16* out);
// Weights [outputs, inner] whose rows are [u, -u], u being such values: their products with rows
// [v, v] are zero but for the errors of the roundings on the way, which are few units of a float32
// sum, so that bf16 holds them whole, and others in any other order of the sum. Where the outputs
// are gated, of gate and up one is such a sum, in turns, and the other is of ordinary size.
void FillCancelling(cudaStream_t stream, const ProductShape& shape, std::uint32_t seed,
                    __nv_bfloat16* out);
// Reads the bytes (a multiple of 16), so that they are what the caches hold afterwards.
void ReadThrough(cudaStream_t stream, const void* memory, std::int64_t bytes);

}  // namespace banyan::cuda
