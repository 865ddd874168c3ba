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
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A row's running maximum and sum, and how the cut at hand goes into its values.
struct RunningRow {
  float max = -INFINITY, sum = 0.0f;
  MergeFactors factors;
};

// One of the lane's two rows in a cut: what its maximum, weights and their sum are made of.
// visible(half, key of the cut) is a constant true where every row sees every key.
template <typename Element, typename Visible>
struct WeighedRow {
  const float (&score)[kScoreTiles][4];
  const Visible& visible;
  const int half;
  float largest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};  // by tile and key modulo two
  float sums[2] = {0.0f, 0.0f};

  __device__ void LookAt(int n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!visible(half, KeyOfScore(n, i))) continue;
      largest[n % 2 * 2 + i] = fmaxf(largest[n % 2 * 2 + i], score[n][2 * half + i]);
    }
  }
  __device__ float Largest() const {
    return QuadMax(fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3])));
  }
  __device__ std::uint32_t Weigh(int n, float row_largest) {
    float value[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool seen = visible(half, KeyOfScore(n, i));
      value[i] = seen ? Exp2(score[n][2 * half + i] - row_largest) : 0.0f;
      sums[i] += value[i];
    }
    return PackPair(value[0], value[1], Element{});
  }
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

// Scores → weights in 16 bits. The special function unit is what there is least of: the second
// row's maximum is found in the shadow of the first row's powers. `sees`: whether a row has a
// maximum that its weights can be relative to; without it, they are zero where scores are hidden.
template <typename Element, typename Visible>
__device__ void WeighRows(const float (&score)[kScoreTiles][4], const Visible& visible,
                          const bool (&sees)[2], std::uint32_t (&weight)[kPagesPerCut][4],
                          CutOfRow (&cut)[2]) {
  WeighedRow<Element, Visible> first{score, visible, 0}, second{score, visible, 1};
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) first.LookAt(n);
  const float first_largest = first.Largest();
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    weight[n / 2][n % 2 * 2] = first.Weigh(n, sees[0] ? first_largest : 0.0f);
    second.LookAt(n);
  }
  const float second_largest = second.Largest();
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    weight[n / 2][n % 2 * 2 + 1] = second.Weigh(n, sees[1] ? second_largest : 0.0f);
  }
  cut[0] = {first_largest, first.sums[0] + first.sums[1]};
  cut[1] = {second_largest, second.sums[0] + second.sums[1]};
}

// The running maxima and sums with the cut, and the factors that its values need. No branches.
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
