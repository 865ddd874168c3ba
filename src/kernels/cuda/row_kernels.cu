#include "kernels/cuda/row_kernels.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/swiglu.cuh"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

bool Empty(const RowRange& range) { return range.rows <= 0 || range.columns <= 0; }

// Grid for `each` columns a thread: x over columns, y over rows in strides of the grid.
LaunchShape ElementGrid(const RowRange& range, int each) {
  const std::int64_t a_block = std::int64_t{kThreads} * each;
  const auto across = static_cast<unsigned>((range.columns + a_block - 1) / a_block);
  const auto down = static_cast<unsigned>(range.rows < 65535 ? range.rows : 65535);
  return {dim3(across, down), kThreads};
}

// --- Several values at once: 16-byte accesses, for rows that start on such a boundary
// -------------
template <int kCount>
struct Values {
  float v[kCount];
};

template <int kCount>
__device__ Values<kCount> Load(const float* from) {
  Values<kCount> out;
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      out.v[i] = four.x, out.v[i + 1] = four.y, out.v[i + 2] = four.z, out.v[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out.v[i] = from[i];
  }
  return out;
}

template <int kCount>
__device__ Values<kCount> Load(const __nv_bfloat16* from) {
  Values<kCount> out;
  if constexpr (kCount % 8 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      const uint4 eight = *reinterpret_cast<const uint4*>(from + i);
      const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        out.v[i + 2 * p] = __uint_as_float(pairs[p] << 16);
        out.v[i + 2 * p + 1] = __uint_as_float(pairs[p] & 0xffff0000u);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out.v[i] = __bfloat162float(from[i]);
  }
  return out;
}

template <int kCount>
__device__ void Store(float* to, const Values<kCount>& x) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(x.v[i], x.v[i + 1], x.v[i + 2], x.v[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = x.v[i];
  }
}

template <int kCount>
__device__ void Store(__nv_bfloat16* to, const Values<kCount>& x) {
  if constexpr (kCount % 4 == 0) {
    std::uint32_t pairs[kCount / 2];
#pragma unroll
    for (int p = 0; p < kCount / 2; ++p) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(x.v[2 * p], x.v[2 * p + 1]);
      pairs[p] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    if constexpr (kCount % 8 == 0) {
#pragma unroll
      for (int p = 0; p < kCount / 2; p += 4) {
        *reinterpret_cast<uint4*>(to + 2 * p) =
            make_uint4(pairs[p], pairs[p + 1], pairs[p + 2], pairs[p + 3]);
      }
    } else {
#pragma unroll
      for (int p = 0; p < kCount / 2; p += 2) {
        *reinterpret_cast<uint2*>(to + 2 * p) = make_uint2(pairs[p], pairs[p + 1]);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __float2bfloat16_rn(x.v[i]);
  }
}

// --- Copies: out[r] = x[index[r]], or x[r] without an index
// ---------------------------------------
template <int kEach, typename From, typename To>
__global__ void CopyRowsKernel(const std::int32_t* index, const From* x, RowRange range, To* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const std::int64_t from = index == nullptr ? r : index[r];
    Store<kEach>(out + r * range.stride + c, Load<kEach>(x + from * range.stride + c));
  }
}

template <typename From, typename To>
void CopyRows(cudaStream_t stream, const std::int32_t* index, const From* x, RowRange range,
              To* out) {
  if (Empty(range)) return;
  if (range.columns % 8 == 0) {
    LaunchEarly(stream, ElementGrid(range, 8), "copy of rows", CopyRowsKernel<8, From, To>, index,
                x, range, out);
  } else {
    LaunchEarly(stream, ElementGrid(range, 1), "copy of rows", CopyRowsKernel<1, From, To>, index,
                x, range, out);
  }
}

// --- x[r] += delta[r] (+ bias), or x[r] += bias
// ---------------------------------------------------
template <int kEach>
__global__ void AddKernel(const float* delta, const float* bias, RowRange range, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  Values<kEach> added = {};
  if (bias != nullptr) added = Load<kEach>(bias + c);
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    Values<kEach> value = Load<kEach>(x + r * range.stride + c);
    Values<kEach> sum = added;
    if (delta != nullptr) {
      sum = Load<kEach>(delta + r * range.stride + c);
      if (bias != nullptr) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) sum.v[i] = __fadd_rn(sum.v[i], added.v[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) value.v[i] = __fadd_rn(value.v[i], sum.v[i]);
    Store<kEach>(x + r * range.stride + c, value);
  }
}

// --- Norm: one block a row, which stays in registers up to 4 * kVectors * kThreads columns
// --------
constexpr int kMostVectors = 8;

template <int kVectors, typename To>
__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(const float* x, const float* weight, float eps, RowRange range, To* out) {
  __shared__ float scratch[kThreads / 32];
  LetNextKernelStart();
  const int columns = static_cast<int>(range.columns);
  // Weights are padded like rows, so that whole vectors can be read.
  Values<4> w[kVectors] = {}, v[kVectors] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int c = (i * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (c < columns) w[i] = Load<4>(weight + c);
  }
  WaitForEarlierKernels();
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  To* out_row = out + static_cast<std::int64_t>(blockIdx.x) * range.stride;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int c = (i * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (c < columns) v[i] = Load<4>(row + c);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (c + j >= columns) v[i].v[j] = 0.0f;
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sum = fmaf(v[i].v[j], v[i].v[j], sum);
  }
  sum = BlockSum(sum, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(columns) + eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int c = (i * kThreads + static_cast<int>(threadIdx.x)) * 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float value = __fmul_rn(__fmul_rn(v[i].v[j], scale), w[i].v[j]);
      v[i].v[j] = c + j < columns ? value : 0.0f;  // the padding stays zero
    }
    if (c < columns) Store<4>(out_row + c, v[i]);
  }
}

// Longer rows are read twice.
template <typename To>
__global__ void LongRmsNormKernel(const float* x, const float* weight, float eps, RowRange range,
                                  To* out) {
  __shared__ float scratch[kThreads / 32];
  LetNextKernelStart();
  WaitForEarlierKernels();
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  To* out_row = out + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    sum = fmaf(row[c], row[c], sum);
  }
  sum = BlockSum(sum, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(range.columns) + eps);
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    const Values<1> value = {__fmul_rn(__fmul_rn(row[c], scale), weight[c])};
    Store<1>(out_row + c, value);
  }
}

struct NormCall {
  const float* x;
  const float* weight;
  float eps;
  RowRange range;
};

template <int kVectors, typename To>
void LaunchNorm(cudaStream_t stream, const NormCall& call, To* out) {
  const LaunchShape shape{dim3(static_cast<unsigned>(call.range.rows)), kThreads};
  if constexpr (kVectors > kMostVectors) {
    LaunchEarly(stream, shape, "norm", LongRmsNormKernel<To>, call.x, call.weight, call.eps,
                call.range, out);
  } else if (call.range.columns <= std::int64_t{kVectors} * kThreads * 4) {
    LaunchEarly(stream, shape, "norm", RmsNormKernel<kVectors, To>, call.x, call.weight, call.eps,
                call.range, out);
  } else {
    LaunchNorm<2 * kVectors>(stream, call, out);
  }
}

// --- SwiGLU
// ---------------------------------------------------------------------------------------
__device__ float SwiGluOf(float gate, float up, const float* /*source*/) {
  return SwiGlu(gate, up);
}
__device__ float SwiGluOf(float gate, float up, const __nv_bfloat16* /*source*/) {
  return SwiGluOfBf16(gate, up);
}

template <int kEach, typename From, typename To>
__global__ void SwiGluKernel(const From* x, std::int64_t x_stride, RowRange range, To* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    Values<kEach> gate = Load<kEach>(x + r * x_stride + c);
    const Values<kEach> up = Load<kEach>(x + r * x_stride + range.columns + c);
#pragma unroll
    for (int i = 0; i < kEach; ++i) gate.v[i] = SwiGluOf(gate.v[i], up.v[i], x);
    Store<kEach>(out + r * range.stride + c, gate);
  }
}

template <typename From, typename To>
void LaunchSwiGlu(cudaStream_t stream, const From* x, std::int64_t x_stride, RowRange range,
                  To* out) {
  if (Empty(range)) return;
  if (range.columns % 8 == 0) {
    LaunchEarly(stream, ElementGrid(range, 8), "swiglu", SwiGluKernel<8, From, To>, x, x_stride,
                range, out);
  } else {
    LaunchEarly(stream, ElementGrid(range, 1), "swiglu", SwiGluKernel<1, From, To>, x, x_stride,
                range, out);
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
void GatherRows(cudaStream_t stream, const std::int32_t* index, const __nv_bfloat16* x,
                RowRange range, __nv_bfloat16* out) {
  CopyRows(stream, index, x, range, out);
}

void AddRows(cudaStream_t stream, const float* delta, const float* bias, RowRange range, float* x) {
  if (Empty(range)) return;
  const bool whole = range.columns % 4 == 0;
  LaunchEarly(stream, ElementGrid(range, whole ? 4 : 1), "add", whole ? AddKernel<4> : AddKernel<1>,
              delta, bias, range, x);
}

void RmsNormRows(cudaStream_t stream, const float* x, const float* weight, float eps,
                 RowRange range, RowOutput out) {
  if (Empty(range)) return;
  const NormCall call{x, weight, eps, range};
  if (out.narrow != nullptr) {
    LaunchNorm<1>(stream, call, out.narrow);
  } else {
    LaunchNorm<1>(stream, call, out.wide);
  }
}

void SwiGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowRange range,
                RowOutput out) {
  if (out.narrow != nullptr) {
    LaunchSwiGlu(stream, x, x_stride, range, out.narrow);
  } else {
    LaunchSwiGlu(stream, x, x_stride, range, out.wide);
  }
}

void SwiGluRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride, RowRange range,
                __nv_bfloat16* out) {
  LaunchSwiGlu(stream, x, x_stride, range, out);
}

void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine) {
  const int count = angles.rows * angles.pairs;
  if (count == 0) return;
  RopeTableKernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(angles, cosine, sine);
  CheckLaunch("rope table");
}

}  // namespace banyan::cuda
