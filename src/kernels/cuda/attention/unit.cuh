// What every attention kernel shares: the algebra of partials (the merge kernel uses it too, so
// that an early merge and a later one give the same bits), and a work unit as its kernel sees it.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

// 2^x by the special function unit; results below 2^-126 are zero.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
  return result;
}

// acc = acc ⊕ next, prepared: value = next * b + acc * a, without branches. Of an empty side
// (maximum -inf, sum and values 0) the factor is 0 and that of the other, if it is not empty, 1:
// that one stays as it is, but for the sign of a zero.
struct MergeFactors {
  float a = 1.0f, b = 1.0f;
};

// Also updates `max` and `sum` of the accumulator.
__device__ inline MergeFactors PrepareMerge(float& max, float& sum, float next_max,
                                            float next_sum) {
  const float larger = fmaxf(max, next_max);
  const float base = larger == -INFINITY ? 0.0f : larger;  // both empty
  const MergeFactors factors = {Exp2(max - base), Exp2(next_max - base)};
  sum = fmaf(next_sum, factors.b, __fmul_rn(sum, factors.a));
  max = larger;
  return factors;
}

__device__ inline float MergeValue(const MergeFactors& factors, float acc, float next) {
  return fmaf(next, factors.b, __fmul_rn(acc, factors.a));
}

// A running partial with the lane's share of its values, and what is merged into it.
template <int Values>
struct RunningPartial {
  float max, sum;
  float value[Values];

  __device__ void Clear() {
    max = -INFINITY;
    sum = 0.0f;
#pragma unroll
    for (float& x : value) x = 0.0f;
  }
  __device__ void Merge(float next_max, float next_sum, const float (&next)[Values]) {
    const MergeFactors factors = PrepareMerge(max, sum, next_max, next_sum);
#pragma unroll
    for (int i = 0; i < Values; ++i) value[i] = MergeValue(factors, value[i], next[i]);
  }
};

// Keys that a row sees, [first, last) within the cut [begin, end).
struct VisibleKeys {
  int first = 0, last = 0;
};

// `offset` is the row's position minus the position of the span's key 0.
__device__ inline VisibleKeys KeysSeen(int offset, int window, int begin, int end) {
  const int from = window > 0 ? offset - window + 1 : begin;
  VisibleKeys seen;
  seen.first = min(max(from, begin), end);
  seen.last = max(seen.first, min(end, offset + 1));
  return seen;
}

struct CutRange {
  int begin = 0, end = 0;
  __device__ bool Holds(int cut) const { return cut >= begin && cut < end; }
};

// A work unit as its kernel sees it: which rows, which keys, where they lie and where results go.
// Registers are scarce: `unit` stays where it is, in shared or global memory, for the view's life.
class UnitView {
 public:
  __device__ UnitView(const AttentionCall& call, const WorkUnit& unit, int kv_head)
      : call_(call),
        unit_(unit),
        kv_head_(kv_head),
        ratio_(call.shape.heads / call.shape.kv_heads) {}

  // Packed rows from the unit's first to the item's last.
  __device__ int rows_left() const {
    return (unit_.row_end - unit_.row_begin) * ratio_ - unit_.first_packed_row;
  }
  // The row of the step that the unit's packed row i belongs to.
  __device__ int Row(int i) const {
    return unit_.row_begin + (unit_.first_packed_row + i) / ratio_;
  }
  __device__ int Head(int i) const {
    return kv_head_ * ratio_ + (unit_.first_packed_row + i) % ratio_;
  }
  __device__ const float* Query(int i) const {
    return call_.query + Row(i) * call_.query_stride +
           static_cast<std::int64_t>(Head(i)) * call_.shape.head_dim;
  }
  // Of a query by a key, in units of log2. Not for scaled queries, which have it.
  __device__ float ScoreScale() const {
    const float scale = call_.shape.scale * kLog2E;
    const bool of_context = unit_.first_page < call_.context.pages;
    return of_context ? scale * call_.context.inverse_temperature : scale;
  }
  // In 16 bits; see AttentionCall::scaled_query.
  __device__ const std::byte* ScaledQuery(int i) const {
    const std::int64_t head = static_cast<std::int64_t>(Row(i)) * call_.shape.heads + Head(i);
    return static_cast<const std::byte*>(call_.scaled_query) +
           head * call_.kv.layout.padded_dim * 2;
  }
  // Position of packed row i from the span's key 0; rows that are not there see nothing.
  __device__ int Offset(int i) const {
    return i < rows_left() ? call_.positions[Row(i)] - unit_.first_position : -1;
  }
  // Index of the partial's (partial, head); -1: it is not read.
  __device__ std::int64_t Partial(int i) const {
    const int row = Row(i);
    if (i >= rows_left() || row < unit_.reader_begin || row >= unit_.reader_end) return -1;
    return static_cast<std::int64_t>(unit_.first_partial + row - unit_.reader_begin) *
               call_.shape.heads +
           Head(i);
  }

  __device__ int key_begin() const { return unit_.key_begin; }
  __device__ int key_end() const { return unit_.key_end; }
  __device__ int CutEnd(int begin) const { return min(begin + kCutKeys, unit_.key_end); }
  // Keys of the cut that some row of the unit may see, [begin, …).
  __device__ int HighKey(int begin) const { return min(CutEnd(begin), unit_.highest_offset + 1); }
  __device__ int Pages(int begin) const {
    return (HighKey(begin) - begin + kPageTokens - 1) / kPageTokens;
  }
  // The first cut from `begin` on that some row of the unit sees; key_end or later: none.
  __device__ int NextCut(int begin) const {
    if (call_.shape.window > 0) {
      const int first = unit_.lowest_offset - call_.shape.window + 1;
      while (begin + kCutKeys <= first && begin < unit_.key_end) begin += kCutKeys;
    }
    return begin > unit_.highest_offset ? unit_.key_end : begin;
  }
  // Whether another group of the unit begins with the cut than the first. (The unit itself begins
  // with a KV chunk then.)
  __device__ bool OpensLaterGroup(int cut) const {
    return cut > unit_.key_begin && (cut - unit_.key_begin) % kGroupKeys == 0;
  }
  // The unit's cuts that some row sees: they begin in [begin, end), a cut apart.
  __device__ CutRange Cuts() const {
    return {NextCut(unit_.key_begin), min(unit_.key_end, unit_.highest_offset + 1)};
  }
  // Cuts that begin in this range are whole, and every row sees every key of them.
  __device__ CutRange WholeCuts() const {
    const int window = call_.shape.window;
    return {window > 0 ? unit_.highest_offset - window + 1 : unit_.key_begin,
            min(unit_.key_end, unit_.lowest_offset + 1) - kCutKeys + 1};
  }
  __device__ VisibleKeys Seen(int offset, int begin) const {
    VisibleKeys seen = KeysSeen(offset, call_.shape.window, begin, CutEnd(begin));
    return {seen.first - begin, seen.last - begin};
  }

  // The block of this KV head that the page of key `key` has.
  __device__ const std::byte* BlockOfKey(int key) const {
    return Block(call_.pages[unit_.first_page + key / kPageTokens]);
  }
  __device__ const std::byte* Block(std::int64_t page) const {
    const KvLayout& layout = call_.kv.layout;
    return call_.kv.layer + (page * layout.kv_heads + kv_head_) * layout.block_bytes;
  }
  __device__ std::int32_t Page(int key) const {
    return call_.pages[unit_.first_page + key / kPageTokens];
  }

 private:
  const AttentionCall& call_;
  const WorkUnit& unit_;
  const int kv_head_, ratio_;
};

// Calls launch(std::integral_constant<int, Dim>) with the one of `Dims` that is `padded_dim`
// (attention.h, PaddedHeadDim).
template <int... Dims, typename Launch>
void ForHeadDim(int padded_dim, const Launch& launch) {
  const bool found =
      ((padded_dim == Dims ? (launch(std::integral_constant<int, Dims>()), true) : false) || ...);
  Check(found ? cudaSuccess : cudaErrorInvalidValue, "head size of attention");
}

}  // namespace banyan::cuda
