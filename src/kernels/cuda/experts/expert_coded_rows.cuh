// Products of experts that many rows chose, of compact weights: codes come through the ring, become
// fragments of bf16 in registers, and are multiplied from there.
#pragma once

#include "kernels/cuda/experts/expert_coded_rows.h"
#include "kernels/cuda/experts/expert_many_rows.cuh"
#include "kernels/cuda/weights/compact_fragments.cuh"

namespace banyan::cuda::expert_many {

// 64 columns of four slabs: row tile 8 slab + 4 group + warp is that warp's.
template <CompactForm kForm>
struct CodedSlabs {
  static constexpr int kMostRows = kCodedExpertRows;
  static constexpr int kColumns = kBoxColumns;
  static constexpr int kRowTiles = kBlockRows / kTileRows;
  static constexpr int kAlong = kColumns / kTileColumns<kForm>;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kCodes = kAlong * kTileBytes, kRecords = kAlong * kTileRecords;
  static constexpr int kBytes = kRowTiles * (kCodes + kRecords);

#ifdef BANYAN_SM90A
  __device__ static int TilesOf(const Call& call) {
    return (call.stride + kTileColumns<kForm> - 1) / kTileColumns<kForm>;
  }
  __device__ static int BytesOf(const Call& call, int chunk) {
    const int count = min(kAlong, TilesOf(call) - chunk * kAlong);
    return kRowTiles * count * (kTileBytes + kTileRecords);
  }
  __device__ static void Copy(const Call& call, const Item& item, int chunk, unsigned char* to,
                              std::uint64_t& barrier, std::uint64_t policy) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane >= kRowTiles) return;
    const int slab = lane / 8, group = lane / 4 % 2, warp = lane % 4;
    const ExpertMatrixPart& part =
        (call.up != nullptr && slab == 1 ? call.up : call.experts)[item.tile.expert];
    const int tiles = TilesOf(call), first = chunk * kAlong, count = min(kAlong, tiles - first);
    const int last = (static_cast<int>(call.end.rows) + kTileRows - 1) / kTileRows - 1;
    const int row_tile = min(item.FirstRow(call, group, slab) / kTileRows + warp, last);
    const std::int64_t at = static_cast<std::int64_t>(row_tile) * tiles + first;
    CopyBulk(to + lane * kCodes, static_cast<const std::uint8_t*>(part.weights) + at * kTileBytes,
             count * kTileBytes, barrier, policy);
    CopyBulk(to + kRowTiles * kCodes + lane * kRecords, part.records + at * kTileRecords,
             count * kTileRecords, barrier, policy);
  }
  // First the fragments, then their products. (The compiler would not let the
  // products of one step run while the fragments of the next are made; those of the other group
  // do.)
  template <int kTiles>
  __device__ static void Multiply(const unsigned char* x_bytes, const unsigned char* w_bytes,
                                  int group, int /*left*/, Sums<kTiles>& sums) {
    constexpr int kSteps = kBoxColumns / 16;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const SwizzledOperand x(x_bytes);
    std::uint32_t w[kSlabs][kSteps][4];
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      const int row_tile = 8 * slab + 4 * group + warp;
#pragma unroll
      for (int tile = 0; tile < kAlong; ++tile) {
        const uint4 four = *reinterpret_cast<const uint4*>(w_bytes + row_tile * kCodes +
                                                           tile * kTileBytes + lane * 16);
        const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
        const std::uint8_t* record = w_bytes + kRowTiles * kCodes + row_tile * kRecords +
                                     tile * kTileRecords + lane / 4 * Form<kForm>::kRecordBytes;
#pragma unroll
        for (int step = 0; step < kTileSteps<kForm>; ++step) {
          FragmentAt<kForm>(words, record, step, w[slab][tile * kTileSteps<kForm> + step]);
        }
      }
    }
    FenceProducts();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        ExpertWgmma(sums[slab], w[slab][step], x.At(step * 32));
      }
    }
    CommitProducts();
    WaitForProducts();
    Pin(sums[0]);
    Pin(sums[1]);
  }
#endif
};

}  // namespace banyan::cuda::expert_many
