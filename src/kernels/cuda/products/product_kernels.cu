// Plain products of float32 and bf16, and what comparing and timing candidates needs.
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {

namespace {

// --- Float32: blocks of 64 x 64 outputs, 4 x 4 a thread -----------------------------------------
constexpr int kBlock = 64, kStep = 16;

template <ProductForm kForm>
__global__ void MultiplyF32Kernel(const float* x, const float* w, ProductShape shape, float* out) {
  __shared__ float xs[kStep][kBlock + 4], ws[kStep][kBlock + 4];
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * kBlock;
  const std::int64_t out0 = static_cast<std::int64_t>(blockIdx.x) * kBlock;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sums[4][4] = {};
  for (std::int64_t k = 0; k < shape.inner; k += kStep) {
    for (int i = threadIdx.x; i < kBlock * kStep; i += 256) {
      const int r = i / kStep, c = i % kStep;
      xs[c][r] = row0 + r < shape.rows ? x[(row0 + r) * shape.inner + k + c] : 0.0f;
      ws[c][r] = out0 + r < shape.outputs ? w[(out0 + r) * shape.inner + k + c] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kStep; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] = fmaf(xs[c][ty + 16 * i], ws[c][tx + 16 * j], sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t r = row0 + ty + 16 * i, n = out0 + tx + 16 * j;
      if (r < shape.rows && n < shape.outputs) {
        StoreSum<kForm>({out, nullptr}, r * shape.out_stride + n, n, sums[i][j]);
      }
    }
  }
}

// --- bf16: a warp takes 16 outputs and 32 rows; operands come straight from memory --------------
constexpr int kWarps = 4, kRowTiles = 4;

template <ProductForm kForm>
__global__ void MultiplyBF16Kernel(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                   ProductShape shape, ProductEnd end) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const std::int64_t n0 = (static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32) * 16;
  const std::int64_t r0 = static_cast<std::int64_t>(blockIdx.y) * kRowTiles * 8;
  if (n0 >= shape.outputs) return;
  const __nv_bfloat16* w0 = w + (n0 + g) * shape.inner + 2 * t;
  const __nv_bfloat16* w1 = w0 + 8 * shape.inner;
  const __nv_bfloat16* xs[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    // Rows past the end repeat the last one; their results are not written.
    const std::int64_t r = r0 + i * 8 + g;
    xs[i] = x + (r < shape.rows ? r : shape.rows - 1) * shape.inner + 2 * t;
  }
  const auto word = [](const __nv_bfloat16* p) {
    return *reinterpret_cast<const std::uint32_t*>(p);
  };
  float sums[kRowTiles][4] = {};
#pragma unroll 4
  for (std::int64_t k = 0; k < shape.inner; k += 16) {
    const std::uint32_t a[4] = {word(w0 + k), word(w1 + k), word(w0 + k + 8), word(w1 + k + 8)};
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      Mma(sums[i], a, word(xs[i] + k), word(xs[i] + k + 8), __nv_bfloat16{});
    }
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const std::int64_t r = r0 + i * 8 + 2 * t + c % 2, n = n0 + g + 8 * (c / 2);
      if (r < shape.rows && n < shape.outputs) {
        StoreSum<kForm>(end, r * shape.out_stride + n, n, sums[i][c]);
      }
    }
  }
}

__global__ void CountDifferencesKernel(const std::uint32_t* found, const std::uint32_t* expected,
                                       WordRows range, std::int64_t period,
                                       unsigned long long* count) {
  unsigned long long differences = 0;
  for (std::int64_t r = blockIdx.x; r < range.rows; r += gridDim.x) {
    const std::uint32_t* a = found + r * range.words;
    const std::uint32_t* b = expected + r % period * range.words;
    for (std::int64_t n = threadIdx.x; n < range.words; n += blockDim.x)
      differences += a[n] != b[n];
  }
  if (differences > 0) atomicAdd(count, differences);
}

__global__ void RepeatRowsKernel(const std::uint32_t* x, WordRows range, std::int64_t period,
                                 std::uint32_t* out) {
  for (std::int64_t r = blockIdx.x; r < range.rows; r += gridDim.x) {
    for (std::int64_t n = threadIdx.x; n < range.words; n += blockDim.x) {
      out[r * range.words + n] = x[r % period * range.words + n];
    }
  }
}

__global__ void ReadThroughKernel(const uint4* memory, std::int64_t count, unsigned* never) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned seen = 0;
#pragma unroll 8
  for (; i < count; i += step) {
    const uint4 value = memory[i];
    seen |= (value.x ^ value.y) + (value.z ^ value.w);
  }
  // Hardly ever, and then harmless; without it the reads would be dropped.
  if (never != nullptr && seen == 0x9e3779b9u) *never = seen;
}

// The sum of four uniforms, centred, with variance one.
__device__ float RandomValue(std::int64_t index, std::uint32_t seed) {
  std::uint64_t bits = static_cast<std::uint64_t>(index) + (static_cast<std::uint64_t>(seed) << 40);
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  bits ^= bits >> 31;
  float sum = 0.0f;
  for (int part = 0; part < 4; ++part) {
    sum += static_cast<float>((bits >> (16 * part)) & 0xffff) / 65536.0f - 0.5f;
  }
  return sum * 1.7320508f;
}

__global__ void FillRandomKernel(std::int64_t count, std::uint32_t seed, __nv_bfloat16* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) out[i] = __float2bfloat16_rn(RandomValue(i, seed));
}

__global__ void FillCancellingKernel(ProductShape shape, std::uint32_t seed, __nv_bfloat16* out) {
  // Sums of a few thousand products are then of the size of one: no gate's sigmoid vanishes.
  constexpr float kOrdinary = 1.0f / 64;
  const std::int64_t half = shape.inner / 2;
  for (std::int64_t n = blockIdx.x; n < shape.outputs; n += gridDim.x) {
    const bool cancels = shape.gated == 0 || (n / shape.gated + n % shape.gated) % 2 == 1;
    const std::int64_t row = n * shape.inner;
    for (std::int64_t k = threadIdx.x; k < shape.inner; k += blockDim.x) {
      float value = RandomValue(row + (cancels && k >= half ? k - half : k), seed);
      if (!cancels) value *= kOrdinary;
      if (cancels && k >= half) value = -value;
      out[row + k] = __float2bfloat16_rn(value);
    }
  }
}

unsigned Blocks(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void MultiplyF32(cudaStream_t stream, const float* x, const float* w, const ProductShape& shape,
                 ProductForm form, float* out) {
  const dim3 grid(Blocks(shape.outputs, kBlock), Blocks(shape.rows, kBlock));
  const auto kernel = form == ProductForm::kAdd ? MultiplyF32Kernel<ProductForm::kAdd>
                                                : MultiplyF32Kernel<ProductForm::kFloat32>;
  kernel<<<grid, 256, 0, stream>>>(x, w, shape, out);
  CheckLaunch("float32 product");
}

ProductOperands GateAndUp(const ProductOperands& operands) {
  ProductOperands product = operands;
  product.form = ProductForm::kBf16;
  product.out = operands.scratch;
  product.shape.out_stride = operands.shape.outputs;
  return product;
}

void ApplySwiGlu(cudaStream_t stream, const ProductOperands& operands) {
  const ProductShape& shape = operands.shape;
  SwiGluRows(stream, operands.scratch, shape.outputs, {shape.rows, shape.gated, shape.out_stride},
             static_cast<__nv_bfloat16*>(operands.out));
}

void MultiplyBF16(cudaStream_t stream, const ProductOperands& operands) {
  if (operands.form == ProductForm::kSwiGlu) {
    MultiplyBF16(stream, GateAndUp(operands));
    return ApplySwiGlu(stream, operands);
  }
  const ProductShape& shape = operands.shape;
  const dim3 grid(Blocks(shape.outputs, kWarps * 16), Blocks(shape.rows, kRowTiles * 8));
  auto kernel = MultiplyBF16Kernel<ProductForm::kFloat32>;
  if (operands.form == ProductForm::kAdd) kernel = MultiplyBF16Kernel<ProductForm::kAdd>;
  if (operands.form == ProductForm::kBias) kernel = MultiplyBF16Kernel<ProductForm::kBias>;
  if (operands.form == ProductForm::kBf16) kernel = MultiplyBF16Kernel<ProductForm::kBf16>;
  kernel<<<grid, kWarps * 32, 0, stream>>>(operands.x, operands.w, shape,
                                           {operands.out, operands.bias});
  CheckLaunch("bf16 product");
}

void CountDifferences(cudaStream_t stream, const void* found, const void* expected, WordRows range,
                      std::int64_t period, unsigned long long* count) {
  const auto blocks = static_cast<unsigned>(range.rows < 1024 ? range.rows : 1024);
  CountDifferencesKernel<<<blocks, 256, 0, stream>>>(static_cast<const std::uint32_t*>(found),
                                                     static_cast<const std::uint32_t*>(expected),
                                                     range, period, count);
  CheckLaunch("comparison of bits");
}

void RepeatRows(cudaStream_t stream, const void* x, WordRows range, std::int64_t period,
                void* out) {
  const auto blocks = static_cast<unsigned>(range.rows < 1024 ? range.rows : 1024);
  RepeatRowsKernel<<<blocks, 256, 0, stream>>>(static_cast<const std::uint32_t*>(x), range, period,
                                               static_cast<std::uint32_t*>(out));
  CheckLaunch("repeated rows");
}

void ReadThrough(cudaStream_t stream, const void* memory, std::int64_t bytes) {
  ReadThroughKernel<<<1056, 512, 0, stream>>>(static_cast<const uint4*>(memory), bytes / 16,
                                              nullptr);
  CheckLaunch("reading");
}

void FillRandom(cudaStream_t stream, std::int64_t count, std::uint32_t seed, __nv_bfloat16* out) {
  FillRandomKernel<<<1024, 256, 0, stream>>>(count, seed, out);
  CheckLaunch("random values");
}

void FillCancelling(cudaStream_t stream, const ProductShape& shape, std::uint32_t seed,
                    __nv_bfloat16* out) {
  const auto blocks = static_cast<unsigned>(shape.outputs < 4096 ? shape.outputs : 4096);
  FillCancellingKernel<<<blocks, 256, 0, stream>>>(shape, seed, out);
  CheckLaunch("random values");
}

std::int64_t OutputStride(const DeviceMatrix& w, ProductForm form) {
  return form == ProductForm::kSwiGlu ? Stride(w.rows / 2) : w.padded_rows;
}

ProductOperands OperandsOf(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                           ProductForm form) {
  ProductOperands operands;
  operands.x = x;
  operands.w = w.memory.As<__nv_bfloat16>();
  operands.shape = {rows, w.padded_rows, w.stride, OutputStride(w, form), 0};
  if (form == ProductForm::kSwiGlu) operands.shape.gated = w.rows / 2;
  operands.form = form;
  operands.w_is_fresh = w.fresh;
  return operands;
}

ProductOperands ProductOf(const ProductOperands& operands) {
  return operands.form == ProductForm::kSwiGlu ? GateAndUp(operands) : operands;
}

}  // namespace banyan::cuda
