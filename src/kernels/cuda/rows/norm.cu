// Norms. A block takes a row; RMS norm keeps it in registers up to 4 * kMostVectors * kThreads
// columns.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/warp.cuh"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/row_values.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMostVectors = 8;

// The codes of a row whose values the block's threads have, four neighbouring ones in each vector.
template <int kVectors>
__device__ void StoreCodes(Values<4> (&values)[kVectors], std::int64_t columns,
                           const Int8Rows& out) {
  __shared__ std::uint32_t scratch[kThreads / 32];
  const int width = HadamardWidth(columns);
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[i].v[j] = __bfloat162float(__float2bfloat16_rn(values[i].v[j]));
    }
    HadamardInWarp(width, values[i].v);
#pragma unroll
    for (int j = 0; j < 4; ++j) largest = max(largest, MagnitudeBits(values[i].v[j]));
  }
  const Int8Scale scale = Int8ScaleOfBits(BlockLargest(largest, scratch));
  const std::int64_t code_stride = (columns + 127) / 128 * 128;
  std::int8_t* codes = out.codes + static_cast<std::int64_t>(blockIdx.x) * code_stride;
#pragma unroll
  for (int i = 0; i < kVectors; i += 2) {
    constexpr int kLast = kVectors - 1;  // one vector alone: it stands for both
    const int c = (i * kThreads + static_cast<int>(threadIdx.x)) * 4, next = c + kThreads * 4;
    const uint2 both = CodesOfFours(values[i].v, values[i < kLast ? i + 1 : i].v, width, scale);
    if (c < code_stride) *reinterpret_cast<std::uint32_t*>(codes + c) = both.x;
    if (i < kLast && next < code_stride) {
      *reinterpret_cast<std::uint32_t*>(codes + next) = both.y;
    }
  }
  if (threadIdx.x == 0) out.scales[blockIdx.x] = scale.scale;
}

template <int kVectors, typename To, bool kInt8>
__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(const float* x, const float* weight, float eps, RowLayout range, To* out,
                  Int8Rows codes) {
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
  if constexpr (kInt8) StoreCodes(v, range.columns, codes);
}

// Longer rows are read twice.
template <typename To>
__global__ void LongRmsNormKernel(const float* x, const float* weight, float eps, RowLayout range,
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

// --- Groups of columns, each with a norm of its own ---------------------------------------------
constexpr int kLongGroup = 1024;

// A block takes a group of a row. Without gates: the norm alone.
template <int kGroupThreads, typename To>
__global__ void __launch_bounds__(kGroupThreads)
    GroupNormKernel(const float* x, GroupNorm norm, GroupGate gate, RowLayout range, To* out) {
  __shared__ float scratch[kGroupThreads / 32];
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t first = blockIdx.x * range.stride + blockIdx.y * norm.group;
  const float* weight = norm.weight + (norm.same_weight ? 0 : blockIdx.y * norm.group);
  const bool gate_first = gate.gates != nullptr && !gate.norm_first;
  const bool gate_last = gate.gates != nullptr && gate.norm_first;
  const auto gated = [&](bool wanted, std::int64_t c, float value) {
    return wanted ? Gated(gate.function, gate.gates[first + c], value) : value;
  };
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x; c < norm.group; c += kGroupThreads) {
    const float value = gated(gate_first, c, x[first + c]);
    sum = fmaf(value, value, sum);
  }
  sum = BlockSum(sum, scratch);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(norm.group) + norm.eps);
  for (std::int64_t c = threadIdx.x; c < norm.group; c += kGroupThreads) {
    const float value = gated(gate_first, c, x[first + c]);
    const Values<1> normed = {gated(gate_last, c, __fmul_rn(__fmul_rn(value, scale), weight[c]))};
    Store<1>(out + first + c, normed);
  }
}

template <typename To>
void LaunchGroupNorm(cudaStream_t stream, const float* x, const GroupNorm& norm,
                     const GroupGate& gate, RowLayout range, To* out) {
  if (range.empty()) return;
  const dim3 grid(static_cast<unsigned>(range.rows),
                  static_cast<unsigned>(range.columns / norm.group));
  if (norm.group > kLongGroup) {
    LaunchEarly(stream, {grid, kThreads}, "norms of groups", GroupNormKernel<kThreads, To>, x, norm,
                gate, range, out);
  } else {
    LaunchEarly(stream, {grid, 32}, "norms of groups", GroupNormKernel<32, To>, x, norm, gate,
                range, out);
  }
}

struct NormCall {
  const float* x;
  const float* weight;
  float eps;
  RowLayout range;
};

// Codes, where they are wanted, are made in the same kernel for rows that are read once, else from
// the result.
template <int kVectors, typename To, bool kInt8>
void LaunchNorm(cudaStream_t stream, const NormCall& call, To* out, const Int8Rows& codes) {
  const LaunchShape shape{dim3(static_cast<unsigned>(call.range.rows)), kThreads};
  if constexpr (kVectors > kMostVectors) {
    LaunchEarly(stream, shape, "norm", LongRmsNormKernel<To>, call.x, call.weight, call.eps,
                call.range, out);
    if constexpr (kInt8) QuantizeRows(stream, out, call.range, CodeReader::kWaits, codes);
  } else if (call.range.columns <= std::int64_t{kVectors} * kThreads * 4) {
    LaunchEarly(stream, shape, "norm", RmsNormKernel<kVectors, To, kInt8>, call.x, call.weight,
                call.eps, call.range, out, codes);
  } else {
    LaunchNorm<2 * kVectors, To, kInt8>(stream, call, out, codes);
  }
}

// --- Layer norm, which encoders have ------------------------------------------------------------
// A block takes a row: mean, then
// the variance around it, then the values.
__global__ void LayerNormKernel(const float* x, const float* weight, const float* bias, float eps,
                                RowLayout range, float* out) {
  __shared__ float scratch[kThreads / 32];
  LetNextKernelStart();
  WaitForEarlierKernels();
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  float* out_row = out + static_cast<std::int64_t>(blockIdx.x) * range.stride;
  const float columns = static_cast<float>(range.columns);
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) sum += row[c];
  const float mean = BlockSum(sum, scratch) / columns;
  __syncthreads();
  float squares = 0.0f;
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    squares = fmaf(row[c] - mean, row[c] - mean, squares);
  }
  const float scale = 1.0f / sqrtf(BlockSum(squares, scratch) / columns + eps);
  for (std::int64_t c = threadIdx.x; c < range.columns; c += kThreads) {
    out_row[c] = (row[c] - mean) * scale * weight[c] + bias[c];
  }
}

}  // namespace

void RmsNormRows(cudaStream_t stream, const float* x, const float* weight, float eps,
                 RowLayout range, RowOutput out) {
  if (range.empty()) return;
  const NormCall call{x, weight, eps, range};
  if (out.bf16 != nullptr && out.codes.codes != nullptr) {
    LaunchNorm<1, __nv_bfloat16, true>(stream, call, out.bf16, out.codes);
  } else if (out.bf16 != nullptr) {
    LaunchNorm<1, __nv_bfloat16, false>(stream, call, out.bf16, {});
  } else {
    LaunchNorm<1, float, false>(stream, call, out.float32, {});
  }
}

void RmsNormGroupsOfRows(cudaStream_t stream, const float* x, const GroupNorm& norm,
                         RowLayout range, float* out) {
  LaunchGroupNorm(stream, x, norm, {}, range, out);
}

void GateAndNormRows(cudaStream_t stream, const float* x, const GroupNorm& norm,
                     const GroupGate& gate, RowLayout range, RowOutput out) {
  if (out.bf16 != nullptr) {
    LaunchGroupNorm(stream, x, norm, gate, range, out.bf16);
  } else {
    LaunchGroupNorm(stream, x, norm, gate, range, out.float32);
  }
}

void LayerNormRows(cudaStream_t stream, const float* x, const float* weight, const float* bias,
                   float eps, RowLayout range, float* out) {
  if (range.empty()) return;
  LaunchEarly(stream, LaunchShape{dim3(static_cast<unsigned>(range.rows)), kThreads}, "layer norm",
              LayerNormKernel, x, weight, bias, eps, range, out);
}

}  // namespace banyan::cuda
