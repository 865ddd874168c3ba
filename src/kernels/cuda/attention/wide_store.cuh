// How a warp of wide units leaves its 16 rows as partials.
#pragma once

#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"

namespace banyan::cuda {

template <int Dim>
class WideStore {
 public:
  static constexpr int kPieces = Dim / 4;            // of a row, 16 bytes each
  static constexpr int kStagedPieces = 8 * kPieces;  // room that it needs in shared memory

  // `partial`: UnitView::Partial of the warp's row lane % 16.
  __device__ WideStore(const AttentionCall& call, int partial, float4* staged)
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
    dim_ == Dim ? StoreWhole(total) : StorePart(total);
  }

 private:
  __device__ int PartialOfRow(int row) const { return __shfl_sync(0xffffffffu, partial_, row); }

  // Through shared memory, so that the warp writes whole rows: eight of its rows, then the others.
  // Pieces lie so that neither side meets a bank twice.
  __device__ void StoreWhole(const float (&total)[Dim / 8][4]) const {
    const auto place = [](int row, int piece) {
      return row * kPieces + (kPieces % 16 == 0 ? piece ^ row << 1 : piece);
    };
    const int piece = min(lane_, kPieces - 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
        reinterpret_cast<float2*>(staged_ + place(lane_ / 4, n * 2 + lane_ % 4 / 2))[lane_ % 2] =
            make_float2(total[n][2 * half], total[n][2 * half + 1]);
      }
      __syncwarp();
      float4 row[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) row[i] = staged_[place(i, piece)];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int at = PartialOfRow(8 * half + i);
        if (at < 0 || lane_ >= kPieces) continue;
        reinterpret_cast<float4*>(partials_.value)[std::int64_t{at} * kPieces + lane_] = row[i];
      }
    }
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
  float4* const staged_;
};

}  // namespace banyan::cuda
