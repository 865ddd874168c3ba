// bf16 products of many rows with SwiGLU at their end, on Hopper (product_kernels.h): how they are
// cut into tiles, the thread that loads the tiles' operands, the products, and SwiGLU of the sums.
#include <cuda.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda {
namespace many_rows {
namespace {

// A block multiplies up to 256 rows by 192 rows of w: 96 of gate, and those of up that belong to
// them. Rows come in slabs of 64, what one instruction takes: two warpgroups have every other slab.
// The two blocks of a cluster have the same rows and neighbouring columns: each loads every other
// slab of x for both.
constexpr int kSlabRows = 64;
constexpr int kMostSlabs = 4;  // of a tile
constexpr int kRowsOfTile = kSlabRows * kMostSlabs;
constexpr int kGroups = 2;  // warpgroups that multiply; one more loads the operands
constexpr int kPairs = 96;  // gate and up of as many outputs
constexpr int kCluster = 2;
constexpr int kThreads = (kGroups + 1) * 128;

// A stage of the ring: 64 columns of k.
constexpr int kRowBytes = kBoxColumns * 2;
constexpr int kSlabBytes = kSlabRows * kRowBytes;
constexpr int kXBytes = kMostSlabs * kSlabBytes, kWBytes = 2 * kPairs * kRowBytes;
constexpr int kStageBytes = kXBytes + kWBytes;
constexpr int kStages = 4;
constexpr int kAlignment = 1024;  // of boxes
constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;

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
constexpr int kCachedTiles = 8;

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
    row_ = (before + at % tiles) * kRowsOfTile;
    column_ = (at / tiles * kCluster + rank_) * kPairs;
  }

  int rows_, row_tiles_, columns_, at_, rank_;
  int row_ = 0, column_ = 0;
};

// One thread. Weights are constants as a rule: the first stages' come before the wait.
__device__ void Fill(const Call& call, const Ring& ring) {
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

// --- SwiGLU of the sums that a warpgroup has of a slab, to memory -------------------------------
// Lane i of four has part i of each of four blocks of 8 columns; afterwards it has all of block i.
__device__ void TransposeAmongFour(std::uint32_t (&word)[4]) {
  const unsigned lane = threadIdx.x % 32;
  const auto exchange = [&](int a, int b, int mask) {  // a of the odd lanes for b of the even ones
    const bool odd = (lane & static_cast<unsigned>(mask)) != 0;
    const std::uint32_t got = __shfl_xor_sync(~0u, odd ? word[a] : word[b], mask);
    (odd ? word[a] : word[b]) = got;
  };
  exchange(0, 1, 1);
  exchange(2, 3, 1);
  exchange(0, 2, 2);
  exchange(1, 3, 2);
}

// Two values, rounded.
__device__ float2 AsBf16(const float* values) {
  return __bfloat1622float2(__floats2bfloat162_rn(values[0], values[1]));
}

// SwiGLU of a slab's sums to memory; the gate's are the first half. Rows of the warp's lanes are
// lane / 4 and that + 8, from `row` on.
__device__ void StoreSlab(const Call& call, const float (&sums)[2 * kPairs / 8][4], int row,
                          int column) {
  constexpr int kBlocks = kPairs / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + 8 * half;
#pragma unroll
    for (int first = 0; first < kBlocks; first += 4) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 gate = AsBf16(&sums[first + i][2 * half]);
        const float2 up = AsBf16(&sums[kBlocks + first + i][2 * half]);
        const __nv_bfloat162 both =
            __floats2bfloat162_rn(SwiGluOfBf16(gate.x, up.x), SwiGluOfBf16(gate.y, up.y));
        words[i] = reinterpret_cast<const std::uint32_t&>(both);
      }
      TransposeAmongFour(words);
      const int c = column + (first + lane % 4) * 8;
      if (r < call.rows && c < call.outputs) {
        *reinterpret_cast<uint4*>(call.out + static_cast<std::int64_t>(r) * call.out_stride + c) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}

// --- Products -----------------------------------------------------------------------------------
#define BANYAN_CLUSTER __cluster_dims__(kCluster, 1, 1)

template <int kSlabs>
using Sums = float[kSlabs][2 * kPairs / 8][4];

// Tells both blocks that this warp has read the stage.
__device__ void GiveBack(const Ring& ring, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) ArriveAt(ring.empty[stage], lane);
}

// Adds the products of the group's slabs of a tile to the sums.
template <int kSlabs>
__device__ void MultiplySlabs(const Ring& ring, int chunks, int group, Place& place,
                              Sums<kSlabs>& sums) {
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const SwizzledOperand x(ring.X(place.stage) + group * kSlabBytes);
    const SwizzledOperand w(ring.W(place.stage));
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kBoxColumns; k += 16) {
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        Wgmma(sums[i], x.At(i * kGroups * kSlabBytes + k * 2), w.At(k * 2));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
    if (chunk > 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance();
  }
  WaitForProducts();
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) Pin(sums[i]);
  GiveBack(ring, before);
}

template <int kSlabs>
__device__ void MultiplyTile(const Call& call, const Ring& ring, const Tiles& tiles, int group,
                             Place& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  Sums<kSlabs> sums = {};
  MultiplySlabs<kSlabs>(ring, call.inner / kBoxColumns, group, place, sums);
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) {
    const int slab = group + i * kGroups;
    StoreSlab(call, sums[i], tiles.row() + slab * kSlabRows + warp * 16, tiles.column());
  }
}

__device__ void MultiplyAll(const Call& call, const Ring& ring, int group) {
  Place place;
  for (Tiles tiles(call); tiles.More(); tiles.Next()) {
    const int slabs = (tiles.slabs() - group + kGroups - 1) / kGroups;
    if (slabs == 2) {
      MultiplyTile<2>(call, ring, tiles, group, place);
    } else if (slabs == 1) {
      MultiplyTile<1>(call, ring, tiles, group, place);
    } else {
      for (int chunk = 0; chunk < call.inner / kBoxColumns; ++chunk, place.Advance()) {
        Wait(ring.full[place.stage], place.parity);
        GiveBack(ring, place.stage);
      }
    }
  }
}

#else
#define BANYAN_CLUSTER  // the compiler knows no clusters for other devices
#endif                  // BANYAN_SM90A

__global__ void BANYAN_CLUSTER __launch_bounds__(kThreads, 1)
    ManyRowsKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t full[kStages], empty[kStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                  full, empty};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == kGroups * 128) {
    FetchMap(call.w);
    FetchMap(call.x);
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(full[stage], 1);
      InitBarrier(empty[stage], kCluster * kGroups * 4);
    }
    PublishBarriers();
  }
  SyncCluster();
  if (group == kGroups) {
    GiveRegisters<40>();
    if (threadIdx.x == kGroups * 128) Fill(call, ring);
    __syncwarp();
  } else {
    TakeRegisters<232>();
    WaitForEarlierKernels();
    MultiplyAll(call, ring, group);
  }
  LetNextKernelStart();  // of the feeding group at once: all blocks have their places by then
  SyncCluster();         // the other block's copies and arrivals come here
#endif
}

}  // namespace
}  // namespace many_rows

bool ManyRowsCanServe(const ProductOperands& operands) {
  const ProductShape& shape = operands.shape;
  return HasHopperKernels() && operands.form == ProductForm::kSwiGlu && shape.rows >= 1 &&
         shape.inner % kBoxColumns == 0 && shape.gated % 8 == 0 && shape.out_stride % 8 == 0;
}

void MultiplyManyRows(cudaStream_t stream, const ProductOperands& operands) {
  using namespace many_rows;
  RaiseSharedMemory<ManyRowsKernel>(kSharedBytes);
  const ProductShape& shape = operands.shape;
  Call call{};
  call.x = MapOfMatrix(operands.x, shape.rows, shape.inner, kSlabRows, 1);
  call.w = MapOfMatrix(operands.w, shape.outputs, shape.inner, kPairs, 1);
  call.out = static_cast<__nv_bfloat16*>(operands.out);
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(shape.gated);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  call.w_is_fresh = operands.w_is_fresh;
  call.row_tiles = (call.rows + kRowsOfTile - 1) / kRowsOfTile;
  call.column_clusters = (call.outputs + kCluster * kPairs - 1) / (kCluster * kPairs);
  const int clusters =
      std::min(call.row_tiles * call.column_clusters, Multiprocessors() / kCluster);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * kCluster)), kThreads,
                           static_cast<size_t>(kSharedBytes)};
  LaunchEarly(stream, launch, "product and SwiGLU", ManyRowsKernel, call);
}

}  // namespace banyan::cuda
