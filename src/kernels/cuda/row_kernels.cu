#include "kernels/cuda/device.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/row_kernels.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

// Grid for one thread per element: x over columns, y over rows in strides of the grid.
dim3 ElementGrid(const RowRange& range) {
  const auto across = static_cast<unsigned>((range.columns + kThreads - 1) / kThreads);
  const auto down = static_cast<unsigned>(range.rows < 65535 ? range.rows : 65535);
  return dim3(across, down);
}
bool Empty(const RowRange& range) { return range.rows <= 0 || range.columns <= 0; }

template <typename From, typename To>
__device__ To Convert(From x) {
  return static_cast<To>(x);
}
template <>
__device__ __nv_bfloat16 Convert<float, __nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ float Convert<__nv_bfloat16, float>(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

// out[r] = x[index[r]], or x[r] without an index.
template <typename From, typename To>
__global__ void CopyRowsKernel(const std::int32_t* index, const From* x, RowRange range, To* out) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const std::int64_t from = index == nullptr ? r : index[r];
    out[r * range.stride + c] = Convert<From, To>(x[from * range.stride + c]);
  }
}

template <typename From, typename To>
void CopyRows(cudaStream_t stream, const std::int32_t* index, const From* x, RowRange range,
              To* out) {
  if (Empty(range)) return;
  CopyRowsKernel<<<ElementGrid(range), kThreads, 0, stream>>>(index, x, range, out);
  CheckLaunch("copy of rows");
}

// x[r] += delta[r], or one vector for all rows when delta_stride is 0.
__global__ void AddKernel(const float* delta, std::int64_t delta_stride, RowRange range, float* x) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    float& value = x[r * range.stride + c];
    value = __fadd_rn(value, delta[r * delta_stride + c]);
  }
}

// One block a row.
template <typename To>
__global__ void RmsNormKernel(const float* x, const float* weight, float eps, RowRange range,
                              To* out) {
  __shared__ float scratch[kThreads / 32];
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  To* out_row = out + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    sum = fmaf(row[c], row[c], sum);
  }
  sum = BlockSum(sum, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(range.columns) + eps);
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    out_row[c] = Convert<float, To>(__fmul_rn(__fmul_rn(row[c], scale), weight[c]));
  }
}

template <typename To>
__global__ void SwiGluKernel(const float* x, std::int64_t x_stride, RowRange range, To* out) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const float gate = x[r * x_stride + c];
    const float up = x[r * x_stride + range.columns + c];
    const float silu = gate / __fadd_rn(1.0f, expf(-gate));
    out[r * range.stride + c] = Convert<float, To>(__fmul_rn(silu, up));
  }
}

__global__ void RopeTableKernel(RopeAngles angles, float* cosine, float* sine) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= angles.rows * angles.pairs) return;
  const float position = static_cast<float>(angles.positions[i / angles.pairs]);
  // The angle is a float32 product, as in the models' own code; its sine is taken in double.
  const float angle = __fmul_rn(position, angles.inverse_frequency[i % angles.pairs]);
  double s = 0.0, c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  cosine[i] = static_cast<float>(c * angles.scale);
  sine[i] = static_cast<float>(s * angles.scale);
}

}  // namespace

void WidenRows(cudaStream_t stream, const __nv_bfloat16* x, RowRange range, float* out) {
  CopyRows(stream, nullptr, x, range, out);
}
void NarrowRows(cudaStream_t stream, const float* x, RowRange range, __nv_bfloat16* out) {
  CopyRows(stream, nullptr, x, range, out);
}
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, const float* table, RowRange range,
               float* out) {
  CopyRows(stream, tokens, table, range, out);
}
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, const __nv_bfloat16* table,
               RowRange range, float* out) {
  CopyRows(stream, tokens, table, range, out);
}
void GatherRows(cudaStream_t stream, const std::int32_t* index, const float* x, RowRange range,
                float* out) {
  CopyRows(stream, index, x, range, out);
}

void AddRows(cudaStream_t stream, const float* delta, RowRange range, float* x) {
  if (Empty(range)) return;
  AddKernel<<<ElementGrid(range), kThreads, 0, stream>>>(delta, range.stride, range, x);
  CheckLaunch("add");
}

void AddBias(cudaStream_t stream, const float* bias, RowRange range, float* x) {
  if (Empty(range)) return;
  AddKernel<<<ElementGrid(range), kThreads, 0, stream>>>(bias, 0, range, x);
  CheckLaunch("bias");
}

void RmsNormRows(cudaStream_t stream, const float* x, const float* weight, float eps,
                 RowRange range, RowOutput out) {
  if (Empty(range)) return;
  const auto rows = static_cast<unsigned>(range.rows);
  if (out.narrow != nullptr) {
    RmsNormKernel<<<rows, kThreads, 0, stream>>>(x, weight, eps, range, out.narrow);
  } else {
    RmsNormKernel<<<rows, kThreads, 0, stream>>>(x, weight, eps, range, out.wide);
  }
  CheckLaunch("norm");
}

void SwiGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowRange range,
                RowOutput out) {
  if (Empty(range)) return;
  const dim3 grid = ElementGrid(range);
  if (out.narrow != nullptr) {
    SwiGluKernel<<<grid, kThreads, 0, stream>>>(x, x_stride, range, out.narrow);
  } else {
    SwiGluKernel<<<grid, kThreads, 0, stream>>>(x, x_stride, range, out.wide);
  }
  CheckLaunch("swiglu");
}

void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine) {
  const int count = angles.rows * angles.pairs;
  if (count == 0) return;
  RopeTableKernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(angles, cosine, sine);
  CheckLaunch("rope table");
}

}  // namespace banyan::cuda
