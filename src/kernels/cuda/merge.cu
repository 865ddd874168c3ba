// The n-ary merge: a warp takes one query head of a row and merges its partials in the order of the
// merge list, groups first, then groups left to right.
#include "kernels/cuda/device.h"
#include "kernels/cuda/partial.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kAhead = 4;  // partials whose values are on their way at a time

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
template <int PerLane>
struct Running {
  float max = -INFINITY, sum = 0.0f;
  float value[PerLane] = {};

  __device__ void Merge(float next_max, float next_sum, const float (&next)[PerLane]) {
    const MergeFactors factors = PrepareMerge(max, sum, next_max, next_sum);
#pragma unroll
    for (int i = 0; i < PerLane; ++i) value[i] = MergeValue(factors, value[i], next[i]);
  }
};

// PerLane: values of a head that a lane holds; longer heads take several passes over the list.
template <typename To, int PerLane>
__global__ void MergeKernel(AttentionCall call, To* out) {
  const int lane = threadIdx.x % 32;
  const int task = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int heads = call.shape.heads, dim = call.shape.head_dim;
  if (task >= call.rows * heads) return;
  const int row = task / heads, head = task % heads;
  const int list_begin = call.merge_begin[row], list_end = call.merge_begin[row + 1];
  To* out_head = out + row * call.out_stride + static_cast<std::int64_t>(head) * dim;
  for (int base = 0; base < dim; base += 32 * PerLane) {
    Running<PerLane> total, group;
    // Each lane fetches one entry of the list with its maximum and sum; then all go through them.
    for (int first = list_begin; first < list_end; first += 32) {
      const int count = min(32, list_end - first);
      MergeEntry entry;
      float entry_max = -INFINITY, entry_sum = 0.0f;
      if (lane < count) {
        entry = call.merges[first + lane];
        const std::int64_t at = static_cast<std::int64_t>(entry.partial) * heads + head;
        entry_max = call.partials.max[at];
        entry_sum = call.partials.sum[at];
      }
      const int opens = entry.opens_group ? 1 : 0;
      for (int j = 0; j < count; j += kAhead) {
        float next[kAhead][PerLane];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const std::int64_t partial = __shfl_sync(0xffffffffu, entry.partial, (j + k) % 32);
          const float* values = call.partials.value + (partial * heads + head) * dim;
#pragma unroll
          for (int i = 0; i < PerLane; ++i) {
            const int d = base + i * 32 + lane;
            next[k][i] = j + k < count && d < dim ? values[d] : 0.0f;
          }
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const float next_max = __shfl_sync(0xffffffffu, entry_max, (j + k) % 32);
          const float next_sum = __shfl_sync(0xffffffffu, entry_sum, (j + k) % 32);
          const bool opens_group = __shfl_sync(0xffffffffu, opens, (j + k) % 32) != 0;
          if (j + k >= count) break;
          if (opens_group) {
            total.Merge(group.max, group.sum, group.value);
            group = {};
          }
          group.Merge(next_max, next_sum, next[k]);
        }
      }
    }
    total.Merge(group.max, group.sum, group.value);
    const float inverse = total.sum == 0.0f ? 0.0f : 1.0f / total.sum;
#pragma unroll
    for (int i = 0; i < PerLane; ++i) {
      const int d = base + i * 32 + lane;
      if (d < dim) {
        out_head[d] = Rounded<To>(total.sum == 0.0f ? 0.0f : __fmul_rn(total.value[i], inverse));
      }
    }
  }
}

template <typename To>
void Launch(cudaStream_t stream, const AttentionCall& call, To* out) {
  const int blocks = (call.rows * call.shape.heads + kWarps - 1) / kWarps;
  if (call.shape.head_dim <= 64) {
    MergeKernel<To, 2><<<blocks, kWarps * 32, 0, stream>>>(call, out);
  } else if (call.shape.head_dim <= 128) {
    MergeKernel<To, 4><<<blocks, kWarps * 32, 0, stream>>>(call, out);
  } else {
    MergeKernel<To, 8><<<blocks, kWarps * 32, 0, stream>>>(call, out);
  }
  CheckLaunch("merge");
}

}  // namespace

void MergePartials(cudaStream_t stream, const AttentionCall& call) {
  if (call.rows * call.shape.heads == 0) return;
  if (call.out.narrow != nullptr) {
    Launch(stream, call, call.out.narrow);
  } else {
    Launch(stream, call, call.out.wide);
  }
}

}  // namespace banyan::cuda
