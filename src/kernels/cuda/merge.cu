// The n-ary merge: a warp takes one query head of a row and merges its partials in the order of the
// merge list, groups first, then groups left to right.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/partial.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4;
// Partials whose values are on their way at a time, and blocks on a multiprocessor: where there are
// few heads to merge, each has much on its way; where there are many, there are many warps.
struct FewHeads {
  static constexpr int kAhead = 16, kBlocks = 4;
};
struct ManyHeads {
  static constexpr int kAhead = 4, kBlocks = 8;
};
constexpr int kMostOfFewHeads = 4096;  // of all rows

// Four consecutive values of a head, those of lane l at base + 4 l. Whole: the head's size is a
// multiple of four, so that each lane loads and stores all or nothing.
template <bool Whole>
struct Four {
  alignas(16) float x[4];

  __device__ static Four Load(const float* head, int first, int dim) {
    Four four = {};
    if constexpr (Whole) {
      if (first < dim) {
        *reinterpret_cast<float4*>(four.x) = *reinterpret_cast<const float4*>(head + first);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) four.x[i] = first + i < dim ? head[first + i] : 0.0f;
    }
    return four;
  }
  __device__ void Store(float* head, int first, int dim) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < dim) head[first + i] = x[i];
    }
  }
  __device__ void Store(__nv_bfloat16* head, int first, int dim) const {
    if constexpr (Whole) {
      if (first >= dim) return;
      *reinterpret_cast<uint2*>(head + first) =
          make_uint2(PackPair(x[0], x[1], __nv_bfloat16{}), PackPair(x[2], x[3], __nv_bfloat16{}));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i < dim) head[first + i] = __float2bfloat16_rn(x[i]);
      }
    }
  }
};

// A partial with the lane's share of its values.
struct Running {
  float max = -INFINITY, sum = 0.0f;
  float value[4] = {};

  __device__ void Merge(float next_max, float next_sum, const float (&next)[4]) {
    const MergeFactors factors = PrepareMerge(max, sum, next_max, next_sum);
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] = MergeValue(factors, value[i], next[i]);
  }
};

// Heads of more than 128 values take several passes over the list.
template <typename To, bool Whole, typename Amount>
__global__ void __launch_bounds__(kWarps * 32, Amount::kBlocks)
    MergeKernel(const __grid_constant__ AttentionCall call, To* out) {
  LetNextKernelStart();
  constexpr int kAhead = Amount::kAhead;
  const int lane = threadIdx.x % 32;
  const int task = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int heads = call.shape.heads, dim = call.shape.head_dim;
  const bool present = task < call.rows * heads;
  const int row = present ? task / heads : 0, head = task % heads;
  const int list_begin = call.merge_begin[row], list_end = call.merge_begin[row + 1];
  // The lists are the step's; what they name is there after the wait.
  MergeEntry entry;
  if (list_begin + lane < list_end) entry = call.merges[list_begin + lane];
  WaitForEarlierKernels();
  if (blockIdx.x == 0 && threadIdx.x < 2) call.next_unit[threadIdx.x] = 0;
  if (!present) return;
  To* out_head = out + row * call.out_stride + static_cast<std::int64_t>(head) * dim;
  for (int base = 0; base < dim; base += 128) {
    const int first_value = base + 4 * lane;
    Running total, group;
    // Each lane fetches one entry of the list with its maximum and sum; then all go through them.
    for (int first = list_begin; first < list_end; first += 32) {
      const int count = min(32, list_end - first);
      float entry_max = -INFINITY, entry_sum = 0.0f;
      if (lane < count) {
        if (list_end - list_begin > 32) entry = call.merges[first + lane];
        const std::int64_t at = static_cast<std::int64_t>(entry.partial) * heads + head;
        entry_max = call.partials.max[at];
        entry_sum = call.partials.sum[at];
      }
      const int opens = entry.opens_group ? 1 : 0;
      for (int j = 0; j < count; j += kAhead) {
        Four<Whole> next[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const std::int64_t partial = __shfl_sync(0xffffffffu, entry.partial, (j + k) % 32);
          if (j + k < count) {
            next[k] = Four<Whole>::Load(call.partials.value + (partial * heads + head) * dim,
                                        first_value, dim);
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
          group.Merge(next_max, next_sum, next[k].x);
        }
      }
    }
    total.Merge(group.max, group.sum, group.value);
    const float inverse = total.sum == 0.0f ? 0.0f : 1.0f / total.sum;
    Four<Whole> result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.x[i] = total.sum == 0.0f ? 0.0f : __fmul_rn(total.value[i], inverse);
    }
    result.Store(out_head, first_value, dim);
  }
}

template <typename To, bool Whole>
void Launch(cudaStream_t stream, const AttentionCall& call, To* out) {
  const int heads = call.rows * call.shape.heads;
  const int blocks = (heads + kWarps - 1) / kWarps;
  const auto kernel = heads <= kMostOfFewHeads ? MergeKernel<To, Whole, FewHeads>
                                               : MergeKernel<To, Whole, ManyHeads>;
  // Where two streams have joined, nothing begins before both are done.
  if (call.units.many_count > 0 && call.units.few_count > 0) {
    kernel<<<blocks, kWarps * 32, 0, stream>>>(call, out);
    CheckLaunch("merge");
  } else {
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), kWarps * 32, 0,
                            DivisionFor(call.rows)};
    LaunchEarly(stream, shape, "merge", kernel, call, out);
  }
}
template <typename To>
void Launch(cudaStream_t stream, const AttentionCall& call, To* out) {
  call.shape.head_dim % 4 == 0 ? Launch<To, true>(stream, call, out)
                               : Launch<To, false>(stream, call, out);
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
