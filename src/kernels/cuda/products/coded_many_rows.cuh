// Products of codes, many rows: the kernel, for files that make it for one tile size each.
#pragma once

#include "kernels/cuda/products/coded_many_rows_feed.cuh"
#include "kernels/cuda/products/coded_many_rows_store.cuh"

namespace banyan::cuda::coded_many {

#ifdef BANYAN_SM90A
#define BANYAN_CODED_CLUSTER __cluster_dims__(kCluster, 1, 1)

// Tells both blocks that this warp has read the stage.
template <typename T>
__device__ inline void GiveBack(const Ring<T>& ring, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) ArriveAt(ring.empty[stage], lane);
}

// The groups' turns: a group multiplies a tile after the other one has waited for all stages of the
// tile before. The barriers of stages could not tell a stage that is several rounds ahead.
template <typename T>
struct Turns {
  int group;
  bool is_first, is_last;  // of the block's tiles

  __device__ void Await() const {
    if (T::kInTurns && !is_first) SyncSome(1 + group, 256);
  }
  __device__ void PassOn() const {
    if (T::kInTurns && !is_last) ArriveSome(2 - group, 256);
  }
};

// Adds the products of the group's kCount slabs of a tile, from slab `first` on, to the sums.
template <typename T, int kCount>
__device__ void MultiplySlabs(const Ring<T>& ring, int chunks, int first, const Turns<T>& turns,
                              Place<T>& place, Sums<T>& sums) {
  turns.Await();
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const SwizzledOperand x(ring.X(place.stage) + first * kSlabBytes);
    const SwizzledOperand w(ring.W(place.stage));
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kCodeBoxColumns; k += 32) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        CodedProduct(sums[i * T::kChains + k / 32 % T::kChains],
                     x.At(i * T::kSlabStep * kSlabBytes + k), w.At(k));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
    if (chunk > 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance();
  }
  turns.PassOn();
  WaitForProducts();
#pragma unroll
  for (int i = 0; i < kCount * T::kChains; ++i) PinCodes(sums[i]);
  GiveBack(ring, before);
#pragma unroll
  for (int i = 0; i < kCount * T::kChains; ++i) {
    if (i % T::kChains == 0) continue;
#pragma unroll
    for (int n = 0; n < T::kWidth / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[i / T::kChains * T::kChains][n][c] += sums[i][n][c];
    }
  }
}

// What the sums of the group's slabs will be added to comes to the cache while they are made. The
// memory's latency would show otherwise: a tile's end has few loads under way.
template <typename T, int kCount>
__device__ void FetchTarget(const Call& call, int first_row, int column) {
  constexpr int kLine = 32, kLines = T::kWidth / kLine;  // float32 values of a line, lines of a row
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int row = first_row + i * T::kSlabStep * kSlabRows;
    for (int line = lane; line < 16 * kLines; line += 32) {
      const int r = row + line / kLines, n = column + line % kLines * kLine;
      if (r >= call.rows || n >= call.outputs) continue;
      const float* at = static_cast<const float*>(call.end.end.out) +
                        static_cast<std::int64_t>(r) * call.out_stride + n;
      asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
    }
  }
}

// `first` is the group's first slab of the tile.
template <typename T, bool kGated, int kCount>
__device__ void MultiplyTile(const Call& call, const Ring<T>& ring, const Tiles<T, kGated>& tiles,
                             int first, const Turns<T>& turns, Place<T>& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int row = tiles.row() + first * kSlabRows + warp * 16;
  if (!kGated && call.end.form == ProductForm::kAdd) {
    FetchTarget<T, kCount>(call, row, tiles.column());
  }
  Sums<T> sums = {};
  MultiplySlabs<T, kCount>(ring, call.inner / kCodeBoxColumns, first, turns, place, sums);
  if constexpr (kGated) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      StoreGatedSlab<T>(call, sums[i * T::kChains], row + i * T::kSlabStep * kSlabRows,
                        tiles.column());
    }
  } else {
    StoreSlabs<T, kCount>(call, sums, row, tiles.column());
  }
}

// A group's slabs of every tile; in turns, all slabs of every other tile.
template <typename T, bool kGated>
__device__ void MultiplyAll(const Call& call, const Ring<T>& ring, int group) {
  const int chunks = call.inner / kCodeBoxColumns;
  Place<T> place;
  Tiles<T, kGated> tiles(call);
  Turns<T> turns{group, true, false};
  for (int at = 0; tiles.More(); ++at, turns.is_first = false) {
    const Tiles<T, kGated> tile = tiles;
    tiles.Next();
    turns.is_last = !tiles.More();
    const int first = T::kInTurns ? 0 : group;
    const int slabs = (tile.slabs() - first + T::kSlabStep - 1) / T::kSlabStep;
    if (T::kInTurns && at % 2 != group) {
      place.Advance(chunks);
    } else if (slabs == 1) {
      MultiplyTile<T, kGated, 1>(call, ring, tile, first, turns, place);
    } else if (slabs < 1) {
      for (int chunk = 0; chunk < chunks; ++chunk, place.Advance()) {
        Wait(ring.full[place.stage], place.parity);
        GiveBack(ring, place.stage);
      }
    } else if constexpr (T::kOfGroup == 2) {
      MultiplyTile<T, kGated, 2>(call, ring, tile, first, turns, place);
    }
  }
}

#else
#define BANYAN_CODED_CLUSTER  // the compiler knows no clusters for other devices
#endif                        // BANYAN_SM90A

template <typename T, bool kGated>
__global__ void BANYAN_CODED_CLUSTER __launch_bounds__(T::kThreads, 1)
    CodedManyKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t full[T::kStages], empty[T::kStages];
  extern __shared__ unsigned char unaligned[];
  const Ring<T> ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                     full, empty};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == T::kGroups * 128) {
    FetchMap(call.w);
    FetchMap(call.x);
    for (int stage = 0; stage < T::kStages; ++stage) {
      InitBarrier(full[stage], 1);
      InitBarrier(empty[stage], kCluster * T::kReaders);
    }
    PublishBarriers();
  }
  SyncCluster();
  if (group == T::kGroups) {
    if constexpr (T::kShiftsRegisters) GiveRegisters<40>();
    if (threadIdx.x == T::kGroups * 128) Fill<T, kGated>(call, ring);
    __syncwarp();
  } else {
    if constexpr (T::kShiftsRegisters) TakeRegisters<232>();
    WaitForEarlierKernels();
    MultiplyAll<T, kGated>(call, ring, group);
  }
  LetNextKernelStart();  // of the feeding group at once: all blocks have their places by then
  SyncCluster();         // the other block's copies and arrivals come here
#endif
}

template <typename T, bool kGated>
void LaunchTile(cudaStream_t stream, const CodedOperands& operands) {
  RaiseSharedMemory<CodedManyKernel<T, kGated>>(T::kSharedBytes);
  constexpr int kColumns = kGated ? T::kWidth / 2 : T::kWidth;
  constexpr std::int64_t kCachedBytes = std::int64_t{16} << 20;
  const ProductShape& shape = operands.shape;
  Call call{};
  call.x = MapOfCodes(operands.x, shape.rows, shape.inner, kSlabRows, 1);
  call.w = MapOfCodes(operands.w, shape.outputs, shape.inner, kColumns, 1);
  call.end = EndOf(operands);
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(kGated ? shape.gated : shape.outputs);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  call.row_tiles = (call.rows + T::kRows - 1) / T::kRows;
  call.column_clusters = (call.outputs + kCluster * kColumns - 1) / (kCluster * kColumns);
  call.cached_tiles =
      static_cast<int>(std::max<std::int64_t>(1, kCachedBytes / (shape.inner * T::kRows)));
  const int clusters =
      std::min(call.row_tiles * call.column_clusters, Multiprocessors() / kCluster);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * kCluster)), T::kThreads,
                           static_cast<size_t>(T::kSharedBytes)};
  LaunchEarly(stream, launch, "product of codes", CodedManyKernel<T, kGated>, call);
}

template <typename T>
void LaunchTile(cudaStream_t stream, const CodedOperands& operands) {
  if (operands.form == ProductForm::kSwiGlu) return LaunchTile<T, true>(stream, operands);
  LaunchTile<T, false>(stream, operands);
}

// Defined in files of their own, which are compiled beside each other.
void MultiplyTiles1(cudaStream_t stream, const CodedOperands& operands);  // {1, 64}
void MultiplyTiles2(cudaStream_t stream, const CodedOperands& operands, int width);
void MultiplyTiles4(cudaStream_t stream, const CodedOperands& operands);        // {4, 192}
void MultiplyTilesInTurns(cudaStream_t stream, const CodedOperands& operands);  // {2, 128, true}

}  // namespace banyan::cuda::coded_many
