// What lies between the products of experts, and the sum after them.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/expert_gate.cuh"
#include "kernels/cuda/experts/expert_kernels.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256, kSumThreads = 128;

// The padding becomes zero, for products to read.
__global__ void GateKernel(ExpertGate gate, const float* x, std::int64_t x_stride, RowLayout range,
                           RowOutput out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.stride) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const float* row = x + r * x_stride;
    const float value =
        c < range.columns ? GatedByExpert(gate, row[c], row[range.columns + c]) : 0.0f;
    if (out.bf16 != nullptr) {
      out.bf16[r * range.stride + c] = __float2bfloat16_rn(value);
    } else {
      out.float32[r * range.stride + c] = value;
    }
  }
}

// Four columns a thread.
__global__ void __launch_bounds__(kSumThreads)
    SumKernel(ExpertRoutes routes, const float* x, RowLayout range, float* out) {
  __shared__ float shares[kMostChosen];
  __shared__ std::int64_t places[kMostChosen];
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int me = static_cast<int>(threadIdx.x);
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kSumThreads + me) * 4;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    __syncthreads();
    if (me < routes.chosen) {
      shares[me] = routes.choices[r * routes.chosen + me].share;
      places[me] = routes.place[r * routes.chosen + me] * range.stride;
    }
    __syncthreads();
    if (c >= range.columns) continue;
    float sums[4] = {};
#pragma unroll 8
    for (int i = 0; i < routes.chosen; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(x + places[i] + c);
      sums[0] = __fmaf_rn(shares[i], four.x, sums[0]);
      sums[1] = __fmaf_rn(shares[i], four.y, sums[1]);
      sums[2] = __fmaf_rn(shares[i], four.z, sums[2]);
      sums[3] = __fmaf_rn(shares[i], four.w, sums[3]);
    }
    float* const to = out + r * range.stride + c;
    if (c + 4 <= range.columns) {
      *reinterpret_cast<float4*>(to) = make_float4(sums[0], sums[1], sums[2], sums[3]);
    } else {
      for (int i = 0; i < 4 && c + i < range.columns; ++i) to[i] = sums[i];
    }
  }
}

// 16 bytes a thread.
__global__ void GatherRowsKernel(ExpertRoutes routes, const uint4* x, std::int64_t pieces,
                                 uint4* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= pieces) return;
  for (std::int64_t slot = blockIdx.y; slot < routes.rows * routes.chosen; slot += gridDim.y) {
    out[slot * pieces + c] = x[routes.row[slot] * pieces + c];
  }
}

LaunchShape GridOf(std::int64_t columns, std::int64_t rows, int threads = kThreads) {
  return {dim3(static_cast<unsigned>((columns + threads - 1) / threads),
               static_cast<unsigned>(rows < 65535 ? rows : 65535)),
          threads};
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
  LaunchEarly(stream, GridOf((range.columns + 3) / 4, range.rows, kSumThreads), "sum of experts",
              SumKernel, routes, x, range, out);
}

void GatherExpertRows(cudaStream_t stream, const ExpertRoutes& routes, const __nv_bfloat16* x,
                      std::int64_t stride, __nv_bfloat16* out) {
  if (routes.slots() == 0) return;
  LaunchEarly(stream, GridOf(stride / 8, routes.slots()), "rows of experts", GatherRowsKernel,
              routes, reinterpret_cast<const uint4*>(x), stride / 8, reinterpret_cast<uint4*>(out));
}

}  // namespace banyan::cuda
