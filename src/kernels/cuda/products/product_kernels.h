// Matrix products by kernels of our own, over device pointers: sum_k x[r][k] w[n][k]. The plain
// ones are exact references as well: each output is one chain over k in order. Others are faster
// for few or for many rows on Hopper.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/weights/device_matrix.h"

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
  // An earlier kernel of the stream may write w: no fetching before it ends.
  bool w_is_fresh = false;
};
// A chain of m16n8k16 matrix instructions; kSwiGlu in the two steps below.
void MultiplyBF16(cudaStream_t stream, const ProductOperands& operands);

// kSwiGlu in two steps, for candidates that know no more than products: gate and up to the scratch,
// and from there to the output.
ProductOperands GateAndUp(const ProductOperands& operands);
void ApplySwiGlu(cudaStream_t stream, const ProductOperands& operands);

// --- bf16 products on Hopper ----
// Few rows (few_rows.cuh). Bits are those of MultiplyBF16: the same chain of matrix instructions
// over k. Like every candidate it serves only after comparison (product_selection.h).
constexpr std::int64_t kMostFewRows = 16;

// How much of a multiprocessor's shared memory the ring takes.
enum class RingSize {
  kHalf,  // the next product of few rows finds room beside it and fetches its first weights early
  kMost,  // more bytes are under way
};
constexpr RingSize kRingSizes[] = {RingSize::kHalf, RingSize::kMost};
constexpr const char* kRingNames[] = {"half", "most"};

// At most kMostFewRows rows, `inner` a multiple of 64, and a Hopper GPU with code made for it.
bool FewRowsCanServe(const ProductShape& shape);
// REQUIRES: FewRowsCanServe. SwiGLU takes two steps (see GateAndUp).
void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, RingSize ring);

// Many rows with SwiGLU at the end of the product of gate and up, so that neither goes to memory;
// the library has no such algorithm. Bits are those of MultiplyBF16 and SwiGluRows; it serves only
// after comparison as well. Whether the current device and such a product allow it: SwiGLU, whole
// boxes along k, and pieces of 16 bytes of the output.
bool ManyRowsCanServe(const ProductOperands& operands);

// REQUIRES: ManyRowsCanServe.
void MultiplyManyRows(cudaStream_t stream, const ProductOperands& operands);

// --- Operands of a product by weights on the device ---------------------------------------------
// Elements from row to row of what a product by `w` leaves: padded as `w` is, or, where half as
// many columns come out, as tensors are.
std::int64_t OutputStride(const DeviceMatrix& w, ProductForm form);
// Without out, bias and scratch.
ProductOperands OperandsOf(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                           ProductForm form);
// What a candidate without SwiGLU has to do of it: gate and up. Other products stay as they are.
ProductOperands ProductOf(const ProductOperands& operands);

// --- For comparing and timing candidates --------------------------------------------------------
// Rows of 32-bit words without gaps.
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
// [v, v] are zero but for the errors of the roundings of partial sums, which are few units of a
// float32 sum, so that bf16 holds them whole, and others in any other order of the sum. Where the
// outputs are gated, gate and up alternate: one is such a sum, the other is of ordinary size.
void FillCancelling(cudaStream_t stream, const ProductShape& shape, std::uint32_t seed,
                    __nv_bfloat16* out);
// Reads the bytes (a multiple of 16), so that they are what the caches hold afterwards.
void ReadThrough(cudaStream_t stream, const void* memory, std::int64_t bytes);

}  // namespace banyan::cuda
