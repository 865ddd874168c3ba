// The softmax of one cut for a lane's two rows, in the layout that the matrix instruction leaves:
// score[n][2 * half + i] is key 8 n + 2 (lane % 4) + i of the cut for row lane / 4 + 8 * half.
//
// The order of the sum of weights: eight chains, one per key modulo 8, in ascending order of keys;
// then chains 2i and 2i + 1, then pairs of pairs. narrow units sum in the same order.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/partial.cuh"

namespace banyan::cuda {

inline constexpr int kPagesPerCut = kCutKeys / 16;
inline constexpr int kScoreTiles = kCutKeys / 8;

// Key of the cut that value i of score tile n belongs to.
__device__ inline int KeyOfScore(int n, int i) {
  return n * 8 + 2 * static_cast<int>(threadIdx.x % 4) + i % 2;
}

// Over the four lanes that hold a row.
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float QuadSum(float even, float odd) {
  float x = even + odd;
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A row's running maximum and sum, and how the cut at hand goes into its values.
struct RunningRow {
  float max = -INFINITY, sum = 0.0f;
  MergeFactors factors;
};

// Scores → weights in 16 bits; the cut's maximum and sum go into the running ones. Both rows of the
// lane side by side: each alone is a chain of waits.
// visible(half, key of the cut) is a constant true where every row sees every key.
template <typename Element, typename Visible>
__device__ void WeighRows(float (&score)[kScoreTiles][4], const Visible& visible,
                          std::uint32_t (&weight)[kPagesPerCut][4], RunningRow (&rows)[2]) {
  float largest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (visible(i / 2, KeyOfScore(n, i))) largest[i] = fmaxf(largest[i], score[n][i]);
    }
  }
  const float row_largest[2] = {QuadMax(fmaxf(largest[0], largest[1])),
                                QuadMax(fmaxf(largest[2], largest[3]))};
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      value[i] = visible(i / 2, KeyOfScore(n, i)) ? Exp2(score[n][i] - row_largest[i / 2]) : 0.0f;
      sums[i] += value[i];
    }
    weight[n / 2][(n % 2) * 2] = PackPair(value[0], value[1], Element{});
    weight[n / 2][(n % 2) * 2 + 1] = PackPair(value[2], value[3], Element{});
  }
  const float sum[2] = {QuadSum(sums[0], sums[1]), QuadSum(sums[2], sums[3])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows[half].factors = PrepareMerge(rows[half].max, rows[half].sum, row_largest[half], sum[half]);
  }
}

// total = total ⊕ next for `Tiles` tiles of values from `first` on.
template <int Tiles, int TotalTiles>
__device__ void MergeTiles(const RunningRow (&rows)[2], const float (&next)[Tiles][4], int first,
                           float (&total)[TotalTiles][4]) {
  const bool plain = !rows[0].factors.keep && !rows[0].factors.take && !rows[1].factors.keep &&
                     !rows[1].factors.take;
  if (__all_sync(0xffffffffu, plain)) {
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const MergeFactors& factors = rows[i / 2].factors;
        total[first + n][i] =
            fmaf(next[n][i], factors.b, __fmul_rn(total[first + n][i], factors.a));
      }
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[first + n][i] = MergeValue(rows[i / 2].factors, total[first + n][i], next[n][i]);
    }
  }
}

}  // namespace banyan::cuda
