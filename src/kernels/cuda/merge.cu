// The n-ary merge: a warp takes one query head of a row and merges its partials in the order of the
// merge list, groups first, then groups left to right.
#include "kernels/cuda/device.h"
#include "kernels/cuda/partial.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMostPerLane = 8;  // values of a head that one pass holds per lane

template <typename To>
__device__ To Rounded(float x);
template <>
__device__ float Rounded<float>(float x) {
  return x;
}
template <>
__device__ __nv_bfloat16 Rounded<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// A partial with the lane's share of its values.
struct Running {
  float max = -INFINITY, sum = 0.0f;
  float value[kMostPerLane] = {};
};

__device__ void MergeInto(Running& acc, const Running& next) {
  const MergeFactors factors = PrepareMerge(acc.max, acc.sum, next.max, next.sum);
#pragma unroll
  for (int i = 0; i < kMostPerLane; ++i) {
    acc.value[i] = MergeValue(factors, acc.value[i], next.value[i]);
  }
}

template <typename To>
__global__ void MergeKernel(AttentionCall call, To* out) {
  const int lane = threadIdx.x % 32;
  const int task = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int heads = call.shape.heads, dim = call.shape.head_dim;
  if (task >= call.rows * heads) return;
  const int row = task / heads, head = task % heads;
  To* out_head = out + row * call.out_stride + static_cast<std::int64_t>(head) * dim;
  // Heads of more than 32 * kMostPerLane values take several passes over the list.
  for (int base = 0; base < dim; base += 32 * kMostPerLane) {
    Running total, group;
    for (std::int32_t m = call.merge_begin[row]; m < call.merge_begin[row + 1]; ++m) {
      const MergeEntry entry = call.merges[m];
      const std::int64_t at = static_cast<std::int64_t>(entry.partial) * heads + head;
      Running next;
      next.max = call.partials.max[at];
      next.sum = call.partials.sum[at];
      if (next.sum != 0.0f) {
#pragma unroll
        for (int i = 0; i < kMostPerLane; ++i) {
          const int d = base + i * 32 + lane;
          if (d < dim) next.value[i] = call.partials.value[at * dim + d];
        }
      }
      if (entry.opens_group) {
        MergeInto(total, group);
        group = next;
      } else {
        MergeInto(group, next);
      }
    }
    MergeInto(total, group);
    const float inverse = total.sum == 0.0f ? 0.0f : 1.0f / total.sum;
#pragma unroll
    for (int i = 0; i < kMostPerLane; ++i) {
      const int d = base + i * 32 + lane;
      if (d < dim) {
        out_head[d] = Rounded<To>(total.sum == 0.0f ? 0.0f : __fmul_rn(total.value[i], inverse));
      }
    }
  }
}

}  // namespace

void MergePartials(cudaStream_t stream, const AttentionCall& call) {
  const int tasks = call.rows * call.shape.heads;
  if (tasks == 0) return;
  const int blocks = (tasks + kWarps - 1) / kWarps;
  if (call.out.narrow != nullptr) {
    MergeKernel<<<blocks, kWarps * 32, 0, stream>>>(call, call.out.narrow);
  } else {
    MergeKernel<<<blocks, kWarps * 32, 0, stream>>>(call, call.out.wide);
  }
  CheckLaunch("merge");
}

}  // namespace banyan::cuda
