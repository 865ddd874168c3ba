// Tree attention (attention.h): which kernels take the work units, and the merge of their partials.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/warp.cuh"

namespace banyan::cuda {

namespace {

// The largest head that a wide unit's partial sums fit in registers for.
constexpr int kMostWideDim = 128;
constexpr int kBlocksPerMultiprocessor = 8;

// --- The n-ary merge ----------------------------------------------------------------------------
// A warp takes one
// or a few query heads of a row and merges their partials as the row's merge list says
// (kernels/units/merge_steps.h): cuts to groups, groups to KV chunks, KV chunks to the row's
// result.

constexpr int kWarps = 4;
// Each load waits for the one before it (list, entry, values), so what counts is how many a
// multiprocessor has in flight: partials of a head, heads of a warp, blocks. Values come by way
// of shared memory, so that a loop can go through them: with few rows, the first fetch of unrolled
// code would be felt.
struct FewHeads {
  static constexpr int kHeads = 1, kAhead = 16, kBlocks = 4;
  static constexpr bool kContext = false;
};
struct ManyShortLists {
  static constexpr int kHeads = 4, kAhead = 3, kBlocks = 4;
  static constexpr bool kContext = false;
};
struct ManyLongLists {
  static constexpr int kHeads = 1, kAhead = 4, kBlocks = 8;
  static constexpr bool kContext = false;
};
// Of a step with a parallel context, however many: the others need not ask for one.
struct ContextAndRest {
  static constexpr int kHeads = 1, kAhead = 4, kBlocks = 8;
  static constexpr bool kContext = true;
};
constexpr int kMostOfFewHeads = 4096;  // of all rows

// Four consecutive values of a head, those of lane l at base + 4 l. Whole: the head's size is a
// multiple of four, so that each lane loads and stores all or nothing.
template <bool Whole>
struct Four {
  alignas(16) float x[4];

  // To be there after WaitForCopies, for this thread alone.
  __device__ void Ask(const float* head, int first, int dim) {
    if constexpr (Whole) {
      CopyAsync(this, first < dim ? head + first : head, first < dim);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = first + i < dim ? head[first + i] : 0.0f;
    }
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

using Running = RunningPartial<4>;

// The merged partial of a parallel context as the rest meets it.
__device__ void ScaleContext(float scale, Running& context) {
  if (context.sum == 0.0f) return;
  const float log_sum = context.max + log2f(context.sum);
  context.max += (scale - 1.0f) * log_sum;
}

// Heads of more than 128 values take several passes over the list.
template <typename To, bool Whole, typename Amount>
__global__ void __launch_bounds__(kWarps * 32, Amount::kBlocks)
    MergeKernel(const __grid_constant__ AttentionCall call, To* out) {
  LetNextKernelStart();
  constexpr int kHeads = Amount::kHeads, kAhead = Amount::kAhead;
  // Every thread's own.
  __shared__ Running aside[kMostAside][kHeads][kWarps * 32];
  __shared__ Four<Whole> fetched[kAhead][kHeads][kWarps * 32];
  const int lane = threadIdx.x % 32;
  const int task = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int heads = call.shape.heads, dim = call.shape.head_dim;
  const int tasks_of_row = (heads + kHeads - 1) / kHeads;
  const bool present = task < call.rows * tasks_of_row;
  const int row = present ? task / tasks_of_row : 0, first_head = task % tasks_of_row * kHeads;
  const int list_begin = call.merge_begin[row], list_end = call.merge_begin[row + 1];
  // The lists are the step's; what they name is there after the wait.
  MergeStep entry;
  if (list_begin + lane < list_end) entry = call.merges[list_begin + lane];
  WaitForEarlierKernels();
  if (blockIdx.x == 0 && threadIdx.x < 2) call.next_unit[threadIdx.x] = 0;
  if (!present) return;
  const int count_of_heads = min(kHeads, heads - first_head);
  // Codes are those of spread values (kernels/spread.h).
  const int hadamard_width = call.kv.layout.element_bytes == 1 ? HeadHadamardWidth(dim) : 1;
  // Of head h of the warp: where its part of a partial lies.
  const auto place = [&](std::int64_t partial, int h) {
    return partial * heads + first_head + min(h, count_of_heads - 1);
  };
  for (int base = 0; base < dim; base += 128) {
    const int first_value = base + 4 * lane;
    Running running[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) running[h].Clear();
    int depth = 0;
    // Each lane fetches one entry of the list with its maxima and sums; then all go through them.
    for (int first = list_begin; first < list_end; first += 32) {
      const int count = min(32, list_end - first);
      if (list_end - list_begin > 32 && lane < count) entry = call.merges[first + lane];
      float entry_max[kHeads], entry_sum[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        entry_max[h] = lane < count ? call.partials.max[place(entry.partial, h)] : -INFINITY;
        entry_sum[h] = lane < count ? call.partials.sum[place(entry.partial, h)] : 0.0f;
      }
      const unsigned opens = __ballot_sync(0xffffffffu, lane < count && entry.opens > 0);
      const unsigned closes = __ballot_sync(0xffffffffu, lane < count && entry.closes > 0);
      const unsigned closes_two = __ballot_sync(0xffffffffu, lane < count && entry.closes > 1);
      unsigned scales = 0;
      if constexpr (Amount::kContext) {
        scales = __ballot_sync(0xffffffffu, lane < count && entry.scales_context > 0);
      }
      for (int j = 0; j < count; j += kAhead) {
#pragma unroll 4
        for (int k = 0; k < kAhead; ++k) {
          const std::int64_t partial = __shfl_sync(0xffffffffu, entry.partial, (j + k) % 32);
          if (j + k >= count) continue;
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            fetched[k][h][threadIdx.x].Ask(call.partials.value + place(partial, h) * dim,
                                           first_value, dim);
          }
        }
        CommitCopies();
        WaitForCopies<0>();
#pragma unroll 1
        for (int k = j; k < min(j + kAhead, count); ++k) {
          const unsigned bit = 1u << k;
          if (Amount::kContext && (scales & bit)) {
#pragma unroll
            for (int h = 0; h < kHeads; ++h) ScaleContext(call.context.scale, running[h]);
          }
          if (opens & bit) {
#pragma unroll
            for (int h = 0; h < kHeads; ++h) {
              aside[depth][h][threadIdx.x] = running[h];
              running[h].Clear();
            }
            ++depth;
          }
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            const float next_max = __shfl_sync(0xffffffffu, entry_max[h], k);
            const float next_sum = __shfl_sync(0xffffffffu, entry_sum[h], k);
            running[h].Merge(next_max, next_sum, fetched[k - j][h][threadIdx.x].x);
          }
          if (!(closes & bit)) continue;
#pragma unroll 1
          for (int times = closes_two & bit ? 2 : 1; times > 0; --times) {
            --depth;
#pragma unroll
            for (int h = 0; h < kHeads; ++h) {
              Running before = aside[depth][h][threadIdx.x];
              before.Merge(running[h].max, running[h].sum, running[h].value);
              running[h] = before;
            }
          }
        }
      }
    }
    if (call.sinks != nullptr) {
      const float nothing[4] = {};
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float sink = call.sinks[first_head + min(h, count_of_heads - 1)];
        running[h].Merge(__fmul_rn(sink, kLog2E), 1.0f, nothing);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const Running& total = running[h];
      const float inverse = total.sum == 0.0f ? 0.0f : 1.0f / total.sum;
      Four<Whole> result;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // No -0 leaves: merging an empty partial, which not every plan has, makes +0 of it.
        result.x[i] = total.sum == 0.0f ? 0.0f : __fmul_rn(total.value[i], inverse) + 0.0f;
      }
      HadamardFours(hadamard_width, result.x);  // back to the values themselves
      if (h >= count_of_heads) continue;
      result.Store(out + row * call.out_stride + static_cast<std::int64_t>(first_head + h) * dim,
                   first_value, dim);
    }
  }
}

template <typename Amount, typename To, bool Whole>
void LaunchFor(cudaStream_t stream, const AttentionCall& call, To* out) {
  const int warps = call.rows * ((call.shape.heads + Amount::kHeads - 1) / Amount::kHeads);
  const int blocks = (warps + kWarps - 1) / kWarps;
  const auto kernel = MergeKernel<To, Whole, Amount>;
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), kWarps * 32};
  LaunchEarly(stream, shape, "merge", kernel, call, out);
}

template <typename To, bool Whole>
void Launch(cudaStream_t stream, const AttentionCall& call, To* out) {
  if (call.context.pages > 0) {
    LaunchFor<ContextAndRest, To, Whole>(stream, call, out);
  } else if (call.rows * call.shape.heads <= kMostOfFewHeads) {
    LaunchFor<FewHeads, To, Whole>(stream, call, out);
  } else if (call.entries <= kLongestShortList * call.rows) {
    LaunchFor<ManyShortLists, To, Whole>(stream, call, out);
  } else {
    LaunchFor<ManyLongLists, To, Whole>(stream, call, out);
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
  if (call.out.bf16 != nullptr) {
    Launch(stream, call, call.out.bf16);
  } else {
    Launch(stream, call, call.out.float32);
  }
}

UnitForm UnitFormFor(KvType type, int head_dim) {
  const bool fits = type != KvType::kF32 && head_dim <= kMostWideDim;
  return fits && HasHopperKernels() ? UnitForm::kWideAndNarrow : UnitForm::kBlocks;
}

bool CanFinish(const AttentionCall& call) {
  return call.form == UnitForm::kWideAndNarrow && call.units.has_wide && !call.units.has_narrow &&
         call.shape.head_dim == call.kv.layout.padded_dim && call.kv.layout.element_bytes == 2;
}

void AttendUnits(cudaStream_t stream, int multiprocessors, KvType type, const AttentionCall& call) {
  if (call.form == UnitForm::kBlocks) {
    const int blocks = multiprocessors * kBlocksPerMultiprocessor;
    return type == KvType::kF32 ? AttendF32(stream, blocks, call)
                                : AttendBlocks(stream, blocks, type, call);
  }
  const bool wide = call.units.has_wide;
  if (wide) AttendWide(stream, multiprocessors, type, call);
  if (call.units.has_narrow) AttendNarrow(stream, multiprocessors, type, call, wide);
}

}  // namespace banyan::cuda
