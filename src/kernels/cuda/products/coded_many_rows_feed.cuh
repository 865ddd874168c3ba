// Products of codes, many rows (coded_kernels.h): how they are cut into tiles, and the thread that
// brings the tiles' operands. As many_rows_feed.cuh, for tiles of several sizes.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_copy.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/coded_product.cuh"
#include "kernels/cuda/products/coded_store.cuh"

namespace banyan::cuda::coded_many {

inline constexpr int kSlabRows = 64;  // what one instruction takes
inline constexpr int kRowBytes = kCodeBoxColumns;
inline constexpr int kSlabBytes = kSlabRows * kRowBytes;
inline constexpr int kCluster = 2;       // blocks with the same rows and neighbouring columns
inline constexpr int kAlignment = 1024;  // of boxes
inline constexpr int kMostStages = 12;

// A block multiplies up to kSlabs slabs of rows by kWidth rows of w; with SwiGLU half of these are
// gates, the others the ups that belong to them. Warpgroups have every other slab, or take turns:
// each has every other tile, and stores its sums while the other one multiplies. The blocks of a
// cluster bring every other slab of x to both.
template <int kSlabCount, int kWidthCount, bool kTurns = false>
struct Tile {
  static constexpr int kSlabs = kSlabCount, kWidth = kWidthCount;
  static constexpr bool kInTurns = kTurns;
  static constexpr int kRows = kSlabs * kSlabRows;
  static constexpr int kGroups = kSlabs == 1 ? 1 : 2;  // that multiply; one more brings operands
  static constexpr int kSlabStep = kInTurns ? 1 : kGroups;       // to a group's next slab
  static constexpr int kOfGroup = kSlabs / kSlabStep;            // slabs, at most
  static constexpr int kReaders = (kInTurns ? 1 : kGroups) * 4;  // warps of a block, of a stage
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kXBytes = kSlabs * kSlabBytes, kWBytes = kWidth * kRowBytes;
  static constexpr int kStageBytes = kXBytes + kWBytes;
  static constexpr int kStages =
      std::min(kMostStages, (kMostSharedBytes - kAlignment - 1024) / kStageBytes);
  static constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;
  // A thread's share of the registers would hold few more than the sums: the feeding group gives of
  // its own.
  static constexpr bool kShiftsRegisters = kGroups == 2;
  static_assert(kStages >= 3 && kOfGroup <= 2);
  // Chains of products that a group has under way: with few sums a chain's latency would show (0.33
  // us for 128 of k, whatever the tile). A slab's chains are added at the end, exactly.
  static constexpr int kChains = std::max(1, 128 / (kOfGroup * kWidth / 2));
};

struct Call {
  CUtensorMap x, w;  // boxes of kSlabRows rows, and of kWidth (SwiGLU: kWidth / 2)
  CodedEnd end;
  int rows, outputs, inner, out_stride;  // outputs: columns of out, after SwiGLU
  int row_tiles, column_clusters;
  int cached_tiles;  // row tiles whose x stays in the cache while all columns meet it
};

#ifdef BANYAN_SM90A

template <typename T>
struct Ring {
  unsigned char* bytes;
  std::uint64_t* full;   // [kStages] both blocks' copies have arrived
  std::uint64_t* empty;  // [kStages] the warps of both blocks have read it

  __device__ unsigned char* X(int stage) const { return bytes + stage * T::kStageBytes; }
  __device__ unsigned char* W(int stage) const { return X(stage) + T::kXBytes; }
};

template <typename T>
struct Place {
  int stage = 0;
  unsigned parity = 0;
  __device__ void Advance() {
    if (++stage < T::kStages) return;
    stage = 0;
    parity ^= 1u;
  }
  __device__ void Advance(int stages) {
    const unsigned to = static_cast<unsigned>(stage + stages);
    stage = static_cast<int>(to % T::kStages);
    parity ^= to / T::kStages % 2;
  }
};

// The tiles of a cluster, one after another, in the order of many_rows_feed.cuh.
template <typename T, bool kGated>
class Tiles {
 public:
  static constexpr int kColumns = kGated ? T::kWidth / 2 : T::kWidth;  // of out

  __device__ explicit Tiles(const Call& call)
      : rows_(call.rows),
        row_tiles_(call.row_tiles),
        columns_(call.column_clusters),
        cached_(call.cached_tiles),
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
    return min(T::kSlabs, (rows_ - row_ + kSlabRows - 1) / kSlabRows);
  }
  __device__ int column() const { return column_; }

 private:
  __device__ void Locate() {
    const int before = at_ / (cached_ * columns_) * cached_;
    const int tiles = max(1, min(cached_, row_tiles_ - before)), at = at_ - before * columns_;
    row_ = (before + at % tiles) * T::kRows;
    column_ = (at / tiles * kCluster + rank_) * kColumns;
  }

  int rows_, row_tiles_, columns_, cached_, at_, rank_;
  int row_ = 0, column_ = 0;
};

// One thread. Weights are constants: the first stages' come before the wait.
template <typename T, bool kGated>
__device__ void Fill(const Call& call, const Ring<T>& ring) {
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const int chunks = call.inner / kCodeBoxColumns;
  Tiles<T, kGated> tiles(call);
  const auto copy_w = [&](int chunk, int stage) {
    ArriveExpecting(ring.full[stage], tiles.slabs() * kSlabBytes + T::kWBytes);
    CopyBoxes(ring.W(stage), call.w, tiles.column(), chunk, ring.full[stage], for_w);
    if constexpr (kGated) {
      CopyBoxes(ring.W(stage) + T::kWBytes / 2, call.w, call.outputs + tiles.column(), chunk,
                ring.full[stage], for_w);
    }
  };
  const auto copy_x = [&](int chunk, int stage) {
    for (int slab = tiles.rank(); slab < tiles.slabs(); slab += kCluster) {
      CopyBoxesToAll(ring.X(stage) + slab * kSlabBytes, call.x, tiles.row() + slab * kSlabRows,
                     chunk, ring.full[stage], (1 << kCluster) - 1, for_x);
    }
  };
  const int early = min(T::kStages, chunks);
  for (int i = 0; i < early; ++i) copy_w(i, i);
  WaitForEarlierKernels();
  for (int i = 0; i < early; ++i) copy_x(i, i);
  // Stages that were never filled count as emptied in the round before.
  Place<T> place = early < T::kStages ? Place<T>{early, 1u} : Place<T>{};
  for (int chunk = early; tiles.More(); tiles.Next(), chunk = 0) {
    for (; chunk < chunks; ++chunk, place.Advance()) {
      Wait(ring.empty[place.stage], place.parity);
      copy_w(chunk, place.stage);
      copy_x(chunk, place.stage);
    }
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda::coded_many
