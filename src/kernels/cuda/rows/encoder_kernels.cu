// LayerNorm and GELU, which encoders need besides the operations of decoders, tanh and scaling.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/rows/row_kernels.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

// A block takes a row: mean, then the variance around it, then the values.
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

struct Gelu {
  __device__ float operator()(float x) const { return x * 0.5f * erfcf(-x * 0.70710678f); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return __fmul_rn(x, factor); }
};

template <typename Function>
__global__ void EveryValueKernel(RowLayout range, Function f, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    float& value = x[r * range.stride + c];
    value = f(value);
  }
}

template <typename Function>
void LaunchForEveryValue(cudaStream_t stream, const RowLayout& range, Function f, float* x) {
  if (range.empty()) return;
  const auto across = static_cast<unsigned>((range.columns + kThreads - 1) / kThreads);
  const auto down = static_cast<unsigned>(range.rows < 65535 ? range.rows : 65535);
  LaunchEarly(stream, LaunchShape{dim3(across, down), kThreads}, "activation",
              EveryValueKernel<Function>, range, f, x);
}

}  // namespace

void LayerNormRows(cudaStream_t stream, const float* x, const float* weight, const float* bias,
                   float eps, RowLayout range, float* out) {
  if (range.empty()) return;
  LaunchEarly(stream, LaunchShape{dim3(static_cast<unsigned>(range.rows)), kThreads}, "layer norm",
              LayerNormKernel, x, weight, bias, eps, range, out);
}

void GeluRows(cudaStream_t stream, RowLayout range, float* x) {
  LaunchForEveryValue(stream, range, Gelu(), x);
}

void TanhRows(cudaStream_t stream, RowLayout range, float* x) {
  LaunchForEveryValue(stream, range, Tanh(), x);
}

void ScaleRows(cudaStream_t stream, RowLayout range, float factor, float* x) {
  LaunchForEveryValue(stream, range, Times{factor}, x);
}

}  // namespace banyan::cuda
