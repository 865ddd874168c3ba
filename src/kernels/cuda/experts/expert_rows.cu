// What lies between the products of experts, and the sum after them.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float Gated(const ExpertGate& gate, float g, float up) {
  if (gate.limit == 0.0f) return SwiGlu(g, up);
  g = g > gate.limit ? gate.limit : g;  // NaN stays
  up = up > gate.limit ? gate.limit : up < -gate.limit ? -gate.limit : up;
  const float sigmoid = 1.0f / __fadd_rn(1.0f, expf(-__fmul_rn(gate.slope, g)));
  return __fmul_rn(__fadd_rn(up, 1.0f), __fmul_rn(g, sigmoid));
}

// The padding becomes zero, for products to read.
__global__ void GateKernel(ExpertGate gate, const float* x, std::int64_t x_stride, RowLayout range,
                           RowOutput out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.stride) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const float* row = x + r * x_stride;
    const float value = c < range.columns ? Gated(gate, row[c], row[range.columns + c]) : 0.0f;
    if (out.bf16 != nullptr) {
      out.bf16[r * range.stride + c] = __float2bfloat16_rn(value);
    } else {
      out.float32[r * range.stride + c] = value;
    }
  }
}

__global__ void SumKernel(ExpertRoutes routes, const float* x, RowLayout range, float* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    float sum = 0.0f;
    for (int i = 0; i < routes.chosen; ++i) {
      const std::int64_t at = r * routes.chosen + i;
      sum = __fmaf_rn(routes.choices[at].share, x[routes.place[at] * range.stride + c], sum);
    }
    out[r * range.stride + c] = sum;
  }
}

LaunchShape GridOf(std::int64_t columns, std::int64_t rows) {
  return {dim3(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
               static_cast<unsigned>(rows < 65535 ? rows : 65535)),
          kThreads};
}

}  // namespace

void GateExperts(cudaStream_t stream, const ExpertGate& gate, const float* x, std::int64_t x_stride,
                 RowLayout range, RowOutput out) {
  if (range.empty()) return;
  LaunchEarly(stream, GridOf(range.stride, range.rows), "gates of experts", GateKernel, gate, x,
              x_stride, range, out);
}

void SumExperts(cudaStream_t stream, const ExpertRoutes& routes, const float* x, RowLayout range,
                float* out) {
  if (range.empty()) return;
  LaunchEarly(stream, GridOf(range.columns, range.rows), "sum of experts", SumKernel, routes, x,
              range, out);
}

}  // namespace banyan::cuda
