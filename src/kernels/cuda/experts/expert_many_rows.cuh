// Products of experts that many rows chose, by Hopper's copy engine and warpgroup products. A block
// takes 256 rows of weights (of a gated product 128 of gate and 128 of up) and up to 192 rows of x,
// so that the cache has to deliver little for a product; then those of the item that is a grid
// further on. Two warpgroups multiply two slabs of 64 rows of weights each; a third loads the
// operands through a ring. A chain over k has the bits of mma.sync's (docs/cuda.md).
#pragma once

#include <algorithm>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/experts/expert_gate.cuh"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"

namespace banyan::cuda::expert_many {

inline constexpr int kGroups = 2, kSlabs = 2, kSlabRows = 64;
inline constexpr int kThreads = (kGroups + 1) * 128;
inline constexpr int kBlockRows = kGroups * kSlabs * kSlabRows;  // of weights
inline constexpr int kXBoxRows = 16, kRowBytes = kBoxColumns * 2;
inline constexpr int kAlignment = 1024;  // of boxes

inline constexpr int kMostRing = 225 << 10;

struct Call {
  CUtensorMap x;  // [slots, stride] in boxes of kXBoxRows
  const CUtensorMap *maps, *up_maps;
  const ExpertMatrixPart *experts, *up;
  ExpertTiles tiles;
  ExpertEnd end;
  int stride;  // columns
  int blocks;  // of outputs
  ExpertStart start;
};

// A stage of the ring: x of all rows in boxes of 64 columns, then weights.
template <typename Weights>
struct Stage {
  static constexpr int kX = Weights::kMostRows * Weights::kColumns * 2;
  static constexpr int kBytes = (kX + Weights::kBytes + kAlignment - 1) / kAlignment * kAlignment;
  static constexpr int kStages = std::min(kMostRing / kBytes, 6);
  static constexpr int kSharedBytes = kStages * kBytes + kAlignment;
  static_assert(kStages >= 3);
};

#ifdef BANYAN_SM90A

// Some rows of an expert and some of its outputs.
struct Item {
  ExpertTile tile;
  int block;

  __device__ Item(const Call& call, int at)
      : tile(call.tiles.tiles[at / call.blocks]), block(at % call.blocks) {}
  // The first row of weights of a slab, in the matrix of this slab (gated: gate or up).
  __device__ int FirstRow(const Call& call, int group, int slab) const {
    const int pair = block * kGroups + group;
    return (call.up != nullptr ? pair : pair * kSlabs + slab) * kSlabRows;
  }
};

// As many rows of x as products take.
template <typename Weights>
__device__ int RowsOf(const ExpertTile& tile) {
  if (tile.count <= 32) return tile.count <= 16 ? 16 : 32;
  if (Weights::kMostRows == 128) return tile.count <= 64 ? 64 : 128;
  return (tile.count + 31) / 32 * 32;
}

struct Place {
  int stage = 0;
  unsigned parity = 0;
  __device__ void Advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1u;
  }
};

struct Ring {
  unsigned char* bytes;
  std::uint64_t *full, *empty;
};

// One warp. Weights of the first stages come before the wait where the routes are there already.
template <typename Weights>
__device__ void Feed(const Call& call, const Ring& ring) {
  using S = Stage<Weights>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  if (call.start == ExpertStart::kWaits) WaitForEarlierKernels();
  const int chunks = (call.stride + Weights::kColumns - 1) / Weights::kColumns;
  const int count = *call.tiles.count * call.blocks;
  int at = static_cast<int>(blockIdx.x);
  const auto copy_w = [&](const Item& item, int chunk, int stage) {
    std::uint64_t& full = ring.full[stage];
    if (lane == 0) {
      ArriveExpecting(
          full, Weights::BytesOf(call, chunk) + RowsOf<Weights>(item.tile) * Weights::kColumns * 2);
    }
    __syncwarp();
    Weights::Copy(call, item, chunk, ring.bytes + stage * S::kBytes + S::kX, full, for_w);
  };
  const auto copy_x = [&](const Item& item, int chunk, int stage) {
    const int boxes = RowsOf<Weights>(item.tile) / kXBoxRows, box = (lane - 16) % boxes,
              k = (lane - 16) / boxes;
    if (lane < 16 || k >= Weights::kColumns / kBoxColumns) return;
    CopyBoxes(ring.bytes + stage * S::kBytes + (k * boxes + box) * kXBoxRows * kRowBytes, call.x,
              item.tile.begin + box * kXBoxRows, chunk * (Weights::kColumns / kBoxColumns) + k,
              ring.full[stage], for_x);
  };
  int chunk = 0;
  Place place;
  if (at < count) {
    const Item item(call, at);
    const int early = min(S::kStages, chunks);
    for (int i = 0; i < early; ++i) copy_w(item, i, i);
    if (call.start == ExpertStart::kRoutesAreThere) WaitForEarlierKernels();
    for (int i = 0; i < early; ++i) copy_x(item, i, i);
    // Stages that were never filled count as emptied in the round before.
    place = early < S::kStages ? Place{early, 1u} : Place{};
    chunk = early;
  }
  for (; at < count; at += static_cast<int>(gridDim.x), chunk = 0) {
    const Item item(call, at);
    for (; chunk < chunks; ++chunk, place.Advance(S::kStages)) {
      Wait(ring.empty[place.stage], place.parity);
      copy_w(item, chunk, place.stage);
      copy_x(item, chunk, place.stage);
    }
  }
}

// This warp has read the stage.
__device__ inline void GiveBack(const Ring& ring, int stage) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) Arrive(ring.empty[stage]);
}

template <int kTiles>
using Sums = float[kSlabs][kTiles][4];

template <int kTiles>
__device__ void StoreTile(const Call& call, const Item& item, int group, const Sums<kTiles>& sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const ExpertTile& tile = item.tile;
  const float* bias = call.experts[tile.expert].bias;
  const float* up_bias = call.up != nullptr ? call.up[tile.expert].bias : nullptr;
  const int in_slab = warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = j * 8 + lane % 4 * 2 + c % 2, slot = tile.begin + row;
      if (row >= tile.count) continue;
      const int n = item.FirstRow(call, group, 0) + in_slab + c / 2 * 8;
      if (call.up != nullptr) {
        call.end.StoreGated(slot, n, sums[0][j][c], sums[1][j][c], bias, up_bias);
      } else {
        call.end.Store(slot, n, sums[0][j][c], bias);
        call.end.Store(slot, n + kSlabRows, sums[1][j][c], bias);
      }
    }
  }
}

template <typename Weights, int kTiles>
__device__ void MultiplyTile(const Call& call, const Ring& ring, const Item& item, int group,
                             Place& place) {
  using S = Stage<Weights>;
  const int chunks = (call.stride + Weights::kColumns - 1) / Weights::kColumns;
  Sums<kTiles> sums = {};
  int before = -1;  // a stage that is read but not given back
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const unsigned char* stage = ring.bytes + place.stage * S::kBytes;
    Weights::template Multiply<kTiles>(stage, stage + S::kX, group,
                                       call.stride - chunk * Weights::kColumns, sums);
    // All products but this stage's are done.
    if (before >= 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance(S::kStages);
  }
  WaitForProducts();
  Pin(sums[0]);
  Pin(sums[1]);
  GiveBack(ring, before);
  StoreTile<kTiles>(call, item, group, sums);
}

template <typename Weights>
__device__ void MultiplyAll(const Call& call, const Ring& ring, int group) {
  const int count = *call.tiles.count * call.blocks;
  Place place;
  for (int at = static_cast<int>(blockIdx.x); at < count; at += static_cast<int>(gridDim.x)) {
    const Item item(call, at);
    const int rows = RowsOf<Weights>(item.tile);
    if (rows == 16) {
      MultiplyTile<Weights, 2>(call, ring, item, group, place);
    } else if (rows == 32) {
      MultiplyTile<Weights, 4>(call, ring, item, group, place);
    } else if (rows == 64) {
      MultiplyTile<Weights, 8>(call, ring, item, group, place);
    } else if (rows == 128) {
      MultiplyTile<Weights, 16>(call, ring, item, group, place);
    } else if constexpr (Weights::kMostRows > 128) {
      if (rows == 96) {
        MultiplyTile<Weights, 12>(call, ring, item, group, place);
      } else if (rows == 160) {
        MultiplyTile<Weights, 20>(call, ring, item, group, place);
      } else {
        MultiplyTile<Weights, 24>(call, ring, item, group, place);
      }
    }
  }
}

#endif  // BANYAN_SM90A

template <typename Weights>
__global__ void __launch_bounds__(kThreads, 1)
    ManyExpertRowsKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  using S = Stage<Weights>;
  __shared__ std::uint64_t full[S::kStages], empty[S::kStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                  full, empty};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == kGroups * 128) {
    FetchMap(call.x);
    for (int stage = 0; stage < S::kStages; ++stage) {
      InitBarrier(full[stage], 1);
      InitBarrier(empty[stage], kGroups * 4);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (group == kGroups) {
    GiveRegisters<40>();
    if (threadIdx.x < kGroups * 128 + 32) Feed<Weights>(call, ring);
  } else {
    TakeRegisters<232>();
    WaitForEarlierKernels();
    LetNextKernelStart();  // the next kernel finds the routes and x
    MultiplyAll<Weights>(call, ring, group);
  }
#endif
}

template <typename Weights>
void Launch(cudaStream_t stream, const ExpertRoutes& routes, const ExpertProduct& product,
            ExpertStart start) {
  using S = Stage<Weights>;
  constexpr auto kernel = ManyExpertRowsKernel<Weights>;
  RaiseSharedMemory<kernel>(S::kSharedBytes);
  const ExpertPart& part = product.part;
  const bool gated = product.up != nullptr;
  const auto* x =
      product.by_row ? product.x_of_slots : static_cast<const __nv_bfloat16*>(product.x);
  Call call{};
  call.x = MapOfMatrix(x, routes.slots(), part.stride, kXBoxRows, 1);
  call.maps = part.maps;
  call.experts = part.experts;
  if (gated) {
    call.up_maps = product.up->maps;
    call.up = product.up->experts;
  }
  call.tiles = routes.many;
  call.end = {product.gate,       product.out.float32, product.out.bf16,
              product.out_stride, part.first_row,      part.rows};
  call.stride = static_cast<int>(part.stride);
  const std::int64_t outputs = gated ? product.out_stride : part.rows;
  const int block_outputs = gated ? kBlockRows / 2 : kBlockRows;
  call.blocks = static_cast<int>((outputs + block_outputs - 1) / block_outputs);
  call.start = start;
  const int items = routes.most_many() * call.blocks;
  LaunchEarly(stream,
              {dim3(static_cast<unsigned>(std::min(items, Multiprocessors()))), kThreads,
               static_cast<size_t>(S::kSharedBytes)},
              "products of experts of many rows", kernel, call);
}

// Quantised weights: codes come through the ring, become bf16 fragments in registers, and are
// multiplied from there. 64 columns of four slabs: row tile 8 slab + 4 group + warp is that warp's.
template <QuantisedForm kForm>
struct QuantisedSlabs {
  static constexpr int kMostRows = kQuantisedExpertRows;
  static constexpr int kColumns = kBoxColumns;
  static constexpr int kRowTiles = kBlockRows / kTileRows;
  static constexpr int kAlong = kColumns / kTileColumns<kForm>;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kInt8 = kAlong * kTileBytes, kRecords = kAlong * kTileRecords;
  static constexpr int kBytes = kRowTiles * (kInt8 + kRecords);

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
    CopyBulk(to + lane * kInt8, static_cast<const std::uint8_t*>(part.weights) + at * kTileBytes,
             count * kTileBytes, barrier, policy);
    CopyBulk(to + kRowTiles * kInt8 + lane * kRecords, part.records + at * kTileRecords,
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
        const uint4 four = *reinterpret_cast<const uint4*>(w_bytes + row_tile * kInt8 +
                                                           tile * kTileBytes + lane * 16);
        const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
        const std::uint8_t* record = w_bytes + kRowTiles * kInt8 + row_tile * kRecords +
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
        Wgmma(sums[slab], w[slab][step], x.At(step * 32));
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
