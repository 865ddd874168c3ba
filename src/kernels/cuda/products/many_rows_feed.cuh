// Products of many rows (many_rows.h): how they are cut into tiles, and the thread that brings the
// tiles' operands.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_copy.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/warpgroup_product.cuh"

namespace banyan::cuda::many_rows {

// A block multiplies up to 256 rows by 192 rows of w: 96 of gate, and those of up that belong to
// them. Rows come in slabs of 64, what one instruction takes: two warpgroups have every other slab.
// The two blocks of a cluster have the same rows and neighbouring columns: each brings every other
// slab of x to both.
inline constexpr int kSlabRows = 64;
inline constexpr int kMostSlabs = 4;  // of a tile
inline constexpr int kTileRows = kSlabRows * kMostSlabs;
inline constexpr int kGroups = 2;  // warpgroups that multiply; one more brings the operands
inline constexpr int kPairs = 96;  // gate and up of as many outputs
inline constexpr int kCluster = 2;
inline constexpr int kThreads = (kGroups + 1) * 128;

// A stage of the ring: 64 columns of k.
inline constexpr int kRowBytes = kBoxColumns * 2;
inline constexpr int kSlabBytes = kSlabRows * kRowBytes;
inline constexpr int kXBytes = kMostSlabs * kSlabBytes, kWBytes = 2 * kPairs * kRowBytes;
inline constexpr int kStageBytes = kXBytes + kWBytes;
inline constexpr int kStages = 4;
inline constexpr int kAlignment = 1024;  // of boxes
inline constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;

struct Call {
  CUtensorMap x, w;  // boxes of kSlabRows and of kPairs rows
  __nv_bfloat16* out;
  int rows, outputs, inner, out_stride;  // outputs: after SwiGLU
  int row_tiles, column_clusters;
  bool w_is_fresh;
};

static_assert(kMostSlabs == 2 * kGroups, "a group has at most two slabs");

#ifdef BANYAN_SM90A

// 2048 rows: 16 MB at a width of 4096, which with what else passes stay in an L2 cache of 50.
inline constexpr int kCachedTiles = 8;

struct Ring {
  unsigned char* bytes;
  std::uint64_t* full;   // [kStages] both blocks' copies have arrived
  std::uint64_t* empty;  // [kStages] the warps of both blocks have read it

  __device__ unsigned char* X(int stage) const { return bytes + stage * kStageBytes; }
  __device__ unsigned char* W(int stage) const { return X(stage) + kXBytes; }
};

struct Place {
  int stage = 0;
  unsigned parity = 0;
  __device__ void Advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1u;
  }
};

// The tiles of a cluster, one after another. So many rows of x as stay in the cache meet all
// columns before the next rows do; there, tiles of the same columns stand together, so that weights
// come from memory once for these rows.
class Tiles {
 public:
  __device__ explicit Tiles(const Call& call)
      : rows_(call.rows),
        row_tiles_(call.row_tiles),
        columns_(call.column_clusters),
        at_(static_cast<int>(blockIdx.x) / kCluster),
        rank_(static_cast<int>(blockIdx.x) % kCluster) {
    Locate();
  }
  __device__ bool More() const { return at_ < row_tiles_ * columns_; }
  __device__ void Next() {
    at_ += static_cast<int>(gridDim.x) / kCluster;
    Locate();
  }
  __device__ int rank() const { return rank_; }
  __device__ int row() const { return row_; }
  __device__ int slabs() const {
    return min(kMostSlabs, (rows_ - row_ + kSlabRows - 1) / kSlabRows);
  }
  __device__ int column() const { return column_; }

 private:
  __device__ void Locate() {
    const int before = at_ / (kCachedTiles * columns_) * kCachedTiles;
    const int tiles = max(1, min(kCachedTiles, row_tiles_ - before)), at = at_ - before * columns_;
    row_ = (before + at % tiles) * kTileRows;
    column_ = (at / tiles * kCluster + rank_) * kPairs;
  }

  int rows_, row_tiles_, columns_, at_, rank_;
  int row_ = 0, column_ = 0;
};

// One thread. Weights are constants as a rule: the first stages' come before the wait.
__device__ inline void Fill(const Call& call, const Ring& ring) {
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const int chunks = call.inner / kBoxColumns;
  Tiles tiles(call);
  const auto copy_w = [&](int chunk, int stage) {
    ArriveExpecting(ring.full[stage], tiles.slabs() * kSlabBytes + kWBytes);
    CopyBoxes(ring.W(stage), call.w, tiles.column(), chunk, ring.full[stage], for_w);
    CopyBoxes(ring.W(stage) + kPairs * kRowBytes, call.w, call.outputs + tiles.column(), chunk,
              ring.full[stage], for_w);
  };
  const auto copy_x = [&](int chunk, int stage) {
    for (int slab = tiles.rank(); slab < tiles.slabs(); slab += kCluster) {
      CopyBoxesToAll(ring.X(stage) + slab * kSlabBytes, call.x, tiles.row() + slab * kSlabRows,
                     chunk, ring.full[stage], (1 << kCluster) - 1, for_x);
    }
  };
  if (call.w_is_fresh) WaitForEarlierKernels();
  const int early = min(kStages, chunks);
  for (int i = 0; i < early; ++i) copy_w(i, i);
  WaitForEarlierKernels();
  for (int i = 0; i < early; ++i) copy_x(i, i);
  // Stages that were never filled count as emptied in the round before.
  Place place = early < kStages ? Place{early, 1u} : Place{};
  for (int chunk = early; tiles.More(); tiles.Next(), chunk = 0) {
    for (; chunk < chunks; ++chunk, place.Advance()) {
      Wait(ring.empty[place.stage], place.parity);
      copy_w(chunk, place.stage);
      copy_x(chunk, place.stage);
    }
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda::many_rows
