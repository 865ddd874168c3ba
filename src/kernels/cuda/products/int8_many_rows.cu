// Products of int8 rows and weights, many rows, on Hopper: the kernel, its tiles, and which tile
// serves.
#include <limits>

#include "kernels/cuda/products/int8_many_rows.cuh"

namespace banyan::cuda {
namespace int8_many {
namespace {

#ifdef BANYAN_SM90A
#define BANYAN_INT8_CLUSTER __cluster_dims__(kCluster, 1, 1)

// Tells both blocks that this warp has read the stage.
template <typename T>
__device__ void GiveBack(const Ring<T>& ring, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) ArriveAt(ring.empty[stage], lane);
}

// The ping-pong schedule: a group multiplies a tile after the other one has waited for all stages
// of the tile before. The barriers of stages could not tell a stage that is several rounds ahead.
template <typename T>
struct PingPong {
  int group;
  bool is_first, is_last;  // of the block's tiles

  __device__ void AwaitTurn() const {
    if (T::kPingPong && !is_first) SyncSome(1 + group, 256);
  }
  __device__ void PassTurn() const {
    if (T::kPingPong && !is_last) ArriveSome(2 - group, 256);
  }
};

// Adds the products of the group's kCount slabs of a tile, from slab `first` on, to the sums.
template <typename T, int kCount>
__device__ void MultiplySlabs(const Ring<T>& ring, int chunks, int first,
                              const PingPong<T>& schedule, Place<T>& place, Sums<T>& sums) {
  schedule.AwaitTurn();
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const SwizzledOperand x(ring.X(place.stage) + first * kSlabBytes);
    const SwizzledOperand w(ring.W(place.stage));
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kInt8BoxColumns; k += 32) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        Wgmma(sums[i * T::kChains + k / 32 % T::kChains], x.At(i * T::kSlabStep * kSlabBytes + k),
              w.At(k));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
    if (chunk > 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance();
  }
  schedule.PassTurn();
  WaitForProducts();
#pragma unroll
  for (int i = 0; i < kCount * T::kChains; ++i) Pin(sums[i]);
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
                             int first, const PingPong<T>& schedule, Place<T>& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int row = tiles.row() + first * kSlabRows + warp * 16;
  if (!kGated && call.end.form == ProductForm::kAdd) {
    FetchTarget<T, kCount>(call, row, tiles.column());
  }
  Sums<T> sums = {};
  MultiplySlabs<T, kCount>(ring, call.inner / kInt8BoxColumns, first, schedule, place, sums);
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

// A group's slabs of every tile; with ping-pong, all slabs of every other tile.
template <typename T, bool kGated>
__device__ void MultiplyAll(const Call& call, const Ring<T>& ring, int group) {
  const int chunks = call.inner / kInt8BoxColumns;
  Place<T> place;
  Tiles<T, kGated> tiles(call);
  PingPong<T> schedule{group, true, false};
  for (int at = 0; tiles.More(); ++at, schedule.is_first = false) {
    const Tiles<T, kGated> tile = tiles;
    tiles.Next();
    schedule.is_last = !tiles.More();
    const int first = T::kPingPong ? 0 : group;
    const int slabs = (tile.slabs() - first + T::kSlabStep - 1) / T::kSlabStep;
    if (T::kPingPong && at % 2 != group) {
      place.Advance(chunks);
    } else if (slabs == 1) {
      MultiplyTile<T, kGated, 1>(call, ring, tile, first, schedule, place);
    } else if (slabs < 1) {
      for (int chunk = 0; chunk < chunks; ++chunk, place.Advance()) {
        Wait(ring.full[place.stage], place.parity);
        GiveBack(ring, place.stage);
      }
    } else if constexpr (T::kOfGroup == 2) {
      MultiplyTile<T, kGated, 2>(call, ring, tile, first, schedule, place);
    }
  }
}

#else
#define BANYAN_INT8_CLUSTER  // the compiler knows no clusters for other devices
#endif                       // BANYAN_SM90A

template <typename T, bool kGated>
__global__ void BANYAN_INT8_CLUSTER __launch_bounds__(T::kThreads, 1)
    Int8ManyKernel(const __grid_constant__ Call call) {
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
void LaunchTile(cudaStream_t stream, const Int8Operands& operands) {
  RaiseSharedMemory<Int8ManyKernel<T, kGated>>(T::kSharedBytes);
  constexpr int kColumns = kGated ? T::kWidth / 2 : T::kWidth;
  constexpr std::int64_t kCachedBytes = std::int64_t{16} << 20;
  const ProductShape& shape = operands.shape;
  Call call{};
  call.x = MapOfInt8(operands.x, shape.rows, shape.inner, kSlabRows, 1);
  call.w = MapOfInt8(operands.w, shape.outputs, shape.inner, kColumns, 1);
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
  LaunchEarly(stream, launch, "product of codes", Int8ManyKernel<T, kGated>, call);
}

template <typename T>
void LaunchTile(cudaStream_t stream, const Int8Operands& operands) {
  if (operands.form == ProductForm::kSwiGlu) return LaunchTile<T, true>(stream, operands);
  LaunchTile<T, false>(stream, operands);
}

// Cycles of a multiprocessor, as far as the bounds tell: matrix units (4096 products a cycle), the
// path from the L2 cache (48 bytes), memory (about 26 of each multiprocessor), and for each tile
// its start and its end. Fitted to times of an H200; a cycle stands for 0.74 ns.
double CyclesOf(const Int8Operands& operands, const Int8Tile& tile, int multiprocessors) {
  constexpr double kFeed = 48.0, kMemory = 26.0, kStore = 28.0, kStart = 3000.0, kTurn = 600.0;
  const ProductShape& shape = operands.shape;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool gated = operands.form == ProductForm::kSwiGlu;
  const std::int64_t columns = gated ? shape.gated : shape.outputs;
  const std::int64_t row_tiles = up(shape.rows, tile.slabs * kSlabRows);
  const std::int64_t clusters = up(columns, kCluster * (gated ? tile.width / 2 : tile.width));
  const auto waves = static_cast<double>(up(row_tiles * clusters, multiprocessors / kCluster));
  const auto slabs =
      static_cast<double>(std::min<std::int64_t>(tile.slabs, up(shape.rows, kSlabRows)));
  const auto width = static_cast<double>(tile.width), all = static_cast<double>(multiprocessors);
  const auto chunks = static_cast<double>(shape.inner) / kInt8BoxColumns;
  const double products = slabs * width * 2.0;
  const double fed = (slabs * kSlabRows / kCluster + width) * kInt8BoxColumns;
  const double element = gated ? 1.0 : operands.form == ProductForm::kAdd ? 8.0 : 4.0;
  const double end = kStart + slabs * kSlabRows * width * element / kStore;
  const double multiplied = chunks * std::max(products, fed / kFeed);
  const double from_memory = static_cast<double>(shape.outputs * shape.inner) / (kMemory * all);
  const double all_tiles =
      tile.ping_pong ? waves * (multiplied + kTurn) + end : waves * (multiplied + end);
  return std::max(all_tiles, from_memory);
}

}  // namespace
}  // namespace int8_many

bool Int8ManyRowsCanServe(const Int8Operands& operands) {
  const ProductShape& shape = operands.shape;
  const bool gates_fit = operands.form != ProductForm::kSwiGlu || shape.gated % 2 == 0;
  return HasHopperKernels() && shape.rows >= 1 && gates_fit;
}

Int8Tile Int8TileFor(const Int8Operands& operands, int multiprocessors) {
  Int8Tile best;
  double least = std::numeric_limits<double>::infinity();
  for (const Int8Tile& tile : kInt8Tiles) {
    if (!tile.Serves(operands.form)) continue;
    const double cycles = int8_many::CyclesOf(operands, tile, multiprocessors);
    if (cycles >= least) continue;
    least = cycles;
    best = tile;
  }
  return best;
}

void MultiplyInt8ManyRows(cudaStream_t stream, const Int8Operands& operands, Int8Tile tile) {
  using namespace int8_many;
  if (tile.ping_pong) return LaunchTile<Tile<2, 128, true>>(stream, operands);
  if (tile.slabs == 1) return LaunchTile<Tile<1, 64>>(stream, operands);
  if (tile.slabs == 4) return LaunchTile<Tile<4, 192>, true>(stream, operands);
  if (tile.width == 64) return LaunchTile<Tile<2, 64>>(stream, operands);
  LaunchTile<Tile<2, 128>>(stream, operands);
}

}  // namespace banyan::cuda
