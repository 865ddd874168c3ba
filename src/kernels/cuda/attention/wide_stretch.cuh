// Units of several groups of cuts: the partial of all groups before the one at hand, which a warp
// of wide units keeps in shared memory.
#pragma once

#include "kernels/cuda/attention/softmax.cuh"

namespace banyan::cuda {

// A lane's part: its two rows, in the layout of the matrix instruction (softmax.cuh).
template <int Dim>
class WideStretch {
 public:
  using Values = float[Dim / 8][4];

  // `room`: of the lane's warp.
  __device__ explicit WideStretch(float4 (&room)[Dim / 8][32]) : room_(room) {}

  __device__ void Clear() {
    holds_some_ = false;
#pragma unroll
    for (RunningRow& row : rows_) row = RunningRow();
  }
  __device__ bool holds_some() const { return holds_some_; }

  // A group that others follow.
  __device__ void Add(const RunningRow (&rows)[2], const Values& total) {
    MergeRows(rows);
#pragma unroll
    for (int n = 0; n < Dim / 8; ++n) {
      Place(n) = MergedTile(holds_some_ ? Place(n) : float4{}, total[n]);
    }
    holds_some_ = true;
  }
  // The last one: `rows` and `total` are then those of the stretch. REQUIRES: holds_some().
  __device__ void Close(RunningRow (&rows)[2], Values& total) {
    MergeRows(rows);
#pragma unroll
    for (int n = 0; n < Dim / 8; ++n) {
      const float4 merged = MergedTile(Place(n), total[n]);
      total[n][0] = merged.x;
      total[n][1] = merged.y;
      total[n][2] = merged.z;
      total[n][3] = merged.w;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) rows[half] = rows_[half];
    __syncwarp();  // before others write here
  }

 private:
  __device__ float4& Place(int n) const { return room_[n][threadIdx.x % 32]; }

  __device__ void MergeRows(const RunningRow (&next)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows_[half].factors =
          PrepareMerge(rows_[half].max, rows_[half].sum, next[half].max, next[half].sum);
    }
  }
  __device__ float4 MergedTile(const float4& before, const float (&next)[4]) const {
    return {MergeValue(rows_[0].factors, before.x, next[0]),
            MergeValue(rows_[0].factors, before.y, next[1]),
            MergeValue(rows_[1].factors, before.z, next[2]),
            MergeValue(rows_[1].factors, before.w, next[3])};
  }

  float4 (&room_)[Dim / 8][32];
  RunningRow rows_[2];
  bool holds_some_ = false;
};

}  // namespace banyan::cuda
