// The softmax of one cut for a lane's two rows, in the layout that the matrix instruction leaves:
// score[n][2 * half + i] is key 8 n + 2 (lane % 4) + i of the cut for row lane / 4 + 8 * half.
//
// The order of the sum of weights: eight chains, one per key modulo 8, in ascending order of keys;
// then chains 2i and 2i + 1, then pairs of pairs. narrow units sum in the same order.
#pragma once

#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/mma.cuh"

namespace banyan::cuda {

inline constexpr int kPagesPerCut = kCutKeys / 16;
inline constexpr int kScoreTiles = kCutKeys / 8;

// Codes: weights take the scales of the values with them, in units of the largest one that their
// row sees, so that 16 bits hold them. This is what a scale is multiplied with.
__device__ inline float InverseUnit(float unit) { return unit > 0x1p-100f ? 1.0f / unit : 0.0f; }

// Key of the cut that value i of score tile n belongs to.
__device__ inline int KeyOfScore(int n, int i) {
  return n * 8 + 2 * static_cast<int>(threadIdx.x % 4) + i % 2;
}

// Over the four lanes that hold a row.
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A row's running maximum and sum, and how the cut at hand goes into its values.
struct RunningRow {
  float max = -INFINITY, sum = 0.0f;
  MergeFactors factors;
};

// What a cut adds to a row's running partial: its maximum, and the lane's share of the sum of
// weights.
struct CutOfRow {
  float largest, sum;
};

// Scores of keys that the row does not see become -inf.
__device__ inline void HideScores(const VisibleKeys& seen, int half,
                                  float (&score)[kScoreTiles][4]) {
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = KeyOfScore(n, i);
      if (key < seen.first || key >= seen.last) score[n][2 * half + i] = -INFINITY;
    }
  }
}

// The largest score of one of the two rows; -inf: all are hidden.
__device__ inline float LargestScore(const float (&score)[kScoreTiles][4], int half) {
  float largest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[n % 2 * 2 + i] = fmaxf(largest[n % 2 * 2 + i], score[n][2 * half + i]);
    }
  }
  return QuadMax(fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3])));
}
// Scores → weights relative to 2^base, in place; returns the lane's share of their sum. Hidden ones
// become zero if the base is finite.
__device__ inline float WeighRow(int half, float base, float (&score)[kScoreTiles][4]) {
  float sums[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& value = score[n][2 * half + i];
      value = Exp2(value - base);
      sums[i] += value;
    }
  }
  return sums[0] + sums[1];
}
// The row's weights in 16 bits.
template <typename Element>
__device__ void PackRow(int half, const float (&score)[kScoreTiles][4],
                        std::uint32_t (&weight)[kPagesPerCut][4]) {
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    weight[n / 2][n % 2 * 2 + half] =
        PackPair(score[n][2 * half], score[n][2 * half + 1], Element{});
  }
}

// The running maxima and sums with the cut, and the factors that its values need.
__device__ inline void AddCut(const CutOfRow (&cut)[2], RunningRow (&rows)[2]) {
  const float sum[2] = {QuadSum(cut[0].sum), QuadSum(cut[1].sum)};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows[half].factors = PrepareMerge(rows[half].max, rows[half].sum, cut[half].largest, sum[half]);
  }
}

// total = total ⊕ next for `Tiles` tiles of values from `first` on.
template <int Tiles, int TotalTiles>
__device__ void MergeTiles(const RunningRow (&rows)[2], const float (&next)[Tiles][4], int first,
                           float (&total)[TotalTiles][4]) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[first + n][i] = MergeValue(rows[i / 2].factors, total[first + n][i], next[n][i]);
    }
  }
}

}  // namespace banyan::cuda
