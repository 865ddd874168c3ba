// RMS norm: a block takes a row, and keeps it in registers up to 4 * kMostVectors * kThreads
// columns.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/row_values.cuh"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostVectors = 8;

template <int kVectors, typename To>
__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(const float* x, const float* weight, float eps, RowLayout range, To* out) {
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

struct NormCall {
  const float* x;
  const float* weight;
  float eps;
  RowLayout range;
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

}  // namespace

void RmsNormRows(cudaStream_t stream, const float* x, const float* weight, float eps,
                 RowLayout range, RowOutput out) {
  if (range.empty()) return;
  const NormCall call{x, weight, eps, range};
  if (out.bf16 != nullptr) {
    LaunchNorm<1>(stream, call, out.bf16);
  } else {
    LaunchNorm<1>(stream, call, out.float32);
  }
}

}  // namespace banyan::cuda
