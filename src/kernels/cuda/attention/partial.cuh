// The algebra of partials, what a row sees, and the softmax of a cut: shared by every attention
// kernel and by the merge, so that a merge on the way and a later one give the same bits.
#pragma once

#include "kernels/cuda/attention/attention.h"

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

// Also brings `max` and `sum` of the accumulator up to date.
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

}  // namespace banyan::cuda
