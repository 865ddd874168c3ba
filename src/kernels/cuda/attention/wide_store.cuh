// How a warp of wide units leaves its 16 rows: as partials, or finished where they have no other.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/hopper.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

template <int Dim>
class WideStore {
 public:
  static constexpr int kStagedFloats = 16 * Dim;  // room that it needs in shared memory

  // `partial`: UnitView::Partial of the warp's row lane % 16. `staged`: no one else touches it
  // until Await.
  __device__ WideStore(const AttentionCall& call, int partial, std::byte* staged)
      : partials_(call.partials),
        dim_(call.shape.head_dim),
        lane_(static_cast<int>(threadIdx.x) % 32),
        partial_(partial),
        staged_(staged) {}

  // `total` in the layout of the matrix instruction (softmax.cuh).
  __device__ void Store(const RunningRow (&rows)[2], const float (&total)[Dim / 8][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = PartialOfRow(lane_ / 4 + 8 * half);
      if (at < 0 || lane_ % 4 != 0) continue;
      partials_.max[at] = rows[half].max;
      partials_.sum[at] = rows[half].sum;
    }
    if (dim_ == Dim) {
      StoreWhole(total, partials_.value + std::int64_t{partial_} * Dim);
    } else {
      StorePart(total);
    }
  }
  // Finished rows, that of lane % 16 to `to`.
  template <typename To>
  __device__ void StoreWhole(const float (&total)[Dim / 8][4], To* to) const {
    Stage<To>(total);
    PublishToMatrixUnits();
    __syncwarp();
    if (lane_ < 16 && partial_ >= 0) {
      constexpr int kBytes = Dim * static_cast<int>(sizeof(To));
      StoreBulk(to, staged_ + lane_ * kBytes, kBytes);
    }
    CommitStores();
  }
  // Until the room is free again. By the whole warp.
  __device__ static void Await() {
    WaitUntilStoresAreRead();
    __syncwarp();
  }

 private:
  __device__ int PartialOfRow(int row) const { return __shfl_sync(0xffffffffu, partial_, row); }

  // Whole rows for the copy engine, which the warp does not wait for: when all blocks end a unit,
  // memory takes microseconds for what they write.
  template <typename To>
  __device__ void Stage(const float (&total)[Dim / 8][4]) const {
    using Pair = std::conditional_t<sizeof(To) == 4, float2, std::uint32_t>;
    constexpr int kSide = Dim / 8 % 4 == 0 ? 4 : 1;  // tiles
    const int row = lane_ / 4, order = kSide == 4 ? row % 4 : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto* place = reinterpret_cast<Pair*>(staged_) + (row + 8 * half) * (Dim / 2) + lane_ % 4;
#pragma unroll
      for (int first = 0; first < Dim / 8; first += kSide) {
        Pair tile[kSide];
#pragma unroll
        for (int k = 0; k < kSide; ++k) {
          const float x = total[first + k][2 * half], y = total[first + k][2 * half + 1];
          if constexpr (sizeof(To) == 4) {
            tile[k] = make_float2(x, y);
          } else {
            tile[k] = PackPair(x, y, To{});
          }
        }
        // Rows lie a multiple of all banks apart: each takes its tiles in another order.
        if constexpr (kSide == 4) {
          Exchange(order % 2 != 0, tile[0], tile[1]);
          Exchange(order % 2 != 0, tile[2], tile[3]);
          Exchange(order / 2 != 0, tile[0], tile[2]);
          Exchange(order / 2 != 0, tile[1], tile[3]);
        }
#pragma unroll
        for (int k = 0; k < kSide; ++k) place[(first + (k ^ order)) * 4] = tile[k];
      }
    }
  }
  __device__ static void Exchange(bool wanted, std::uint32_t& a, std::uint32_t& b) {
    const std::uint32_t old = a;
    a = wanted ? b : a;
    b = wanted ? old : b;
  }
  __device__ static void Exchange(bool wanted, float2& a, float2& b) {
    const float2 old = a;
    a = {wanted ? b.x : a.x, wanted ? b.y : a.y};
    b = {wanted ? old.x : b.x, wanted ? old.y : b.y};
  }

  // Heads that are smaller than Dim.
  __device__ void StorePart(const float (&total)[Dim / 8][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = PartialOfRow(lane_ / 4 + 8 * half);
      if (at < 0) continue;
      float* value = partials_.value + std::int64_t{at} * dim_;
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
        const int d = n * 8 + 2 * (lane_ % 4);
        if (d < dim_) value[d] = total[n][2 * half];
        if (d + 1 < dim_) value[d + 1] = total[n][2 * half + 1];
      }
    }
  }

  const PartialArrays& partials_;
  const int dim_, lane_, partial_;
  std::byte* const staged_;
};

#endif  // BANYAN_SM90A

// Units of several groups of cuts: the partial of all groups before the one at hand, which a warp
// of wide units keeps in shared memory.

// A lane's part: its two rows, in the layout of the matrix instruction (softmax.cuh).
template <int Dim>
class WideKvChunk {
 public:
  using Values = float[Dim / 8][4];

  // `room`: of the lane's warp.
  __device__ explicit WideKvChunk(float4 (&room)[Dim / 8][32]) : room_(room) {}

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
  // The last one: `rows` and `total` are then those of the KV chunk. REQUIRES: holds_some().
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
