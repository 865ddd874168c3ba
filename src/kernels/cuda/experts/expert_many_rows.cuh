// Products of experts that many rows chose, by Hopper's copy engine and warpgroup products. A block
// takes 256 rows of weights (of a gated product 128 of gate and 128 of up) and up to 192 rows of x,
// so that the cache has to deliver little for a product; then those of the item that is a grid
// further on. Two warpgroups multiply two slabs of 64 rows of weights each; a third loads the
// operands through a ring. A chain over k has the bits of mma.sync's (docs/cuda.md). A stage has
// one box of 128 bytes of every row, whatever the type of x.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/experts/expert_gate.cuh"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"
#include "kernels/int8.h"

namespace banyan::cuda::expert_many {

inline constexpr int kGroups = 2, kSlabs = 2, kSlabRows = 64;
inline constexpr int kThreads = (kGroups + 1) * 128;
inline constexpr int kBlockRows = kGroups * kSlabs * kSlabRows;  // of weights
inline constexpr int kXBoxRows = 16, kRowBytes = kBoxColumns * 2;
static_assert(kRowBytes == kInt8BoxColumns);
inline constexpr int kAlignment = 1024;  // of boxes

inline constexpr int kMostRing = 225 << 10;

struct Call {
  CUtensorMap x;  // [slots] in boxes of kXBoxRows
  const float* x_scales;
  const std::int32_t* row_of_slot;  // where scales are of rows; null: of slots
  const CUtensorMap *maps, *up_maps;
  const ExpertMatrixPart *experts, *up;
  ExpertTiles tiles;
  ExpertEnd end;
  int chunks;  // along k, one for each stage
  int blocks;  // of outputs
  ExpertStart start;
};

// A stage of the ring: x of all rows, then weights.
template <typename Weights>
struct Stage {
  static constexpr int kX = Weights::kMostRows * kRowBytes;
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
  const int chunks = call.chunks;
  const int count = *call.tiles.count * call.blocks;
  int at = static_cast<int>(blockIdx.x);
  const auto copy_w = [&](const Item& item, int chunk, int stage) {
    std::uint64_t& full = ring.full[stage];
    if (lane == 0) {
      ArriveExpecting(full, Weights::BytesOf(call, chunk) + RowsOf<Weights>(item.tile) * kRowBytes);
    }
    __syncwarp();
    Weights::Copy(call, item, chunk, ring.bytes + stage * S::kBytes + S::kX, full, for_w);
  };
  const auto copy_x = [&](const Item& item, int chunk, int stage) {
    const int box = lane - 16;
    if (box < 0 || box >= RowsOf<Weights>(item.tile) / kXBoxRows) return;
    CopyBoxes(ring.bytes + stage * S::kBytes + box * kXBoxRows * kRowBytes, call.x,
              item.tile.begin + box * kXBoxRows, chunk, ring.full[stage], for_x);
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

template <typename Sum, int kTiles>
using Sums = Sum[kSlabs][kTiles][4];

// The first of the two outputs of a slab that this lane has sums of; the other is 8 further on.
__device__ inline int FirstOfLane() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 32 % 4 * 16 + thread % 32 / 4;
}

// Sums to values: those of codes times the scales of their outputs, of which a lane has two in each
// slab, and of their slots.
template <typename Sum, int kTiles>
struct Scales {
  __device__ Scales(const Call& /*call*/, const Item& /*item*/, int /*group*/) {}
  __device__ float2 OfSlots(int /*tile*/) const { return {}; }
  __device__ float Value(int /*slab*/, int /*c*/, float sum, const float2& /*of_slots*/) const {
    return sum;
  }
};
// Loaded before the products, or they would wait for them at every tile's end.
template <int kTiles>
struct Scales<std::int32_t, kTiles> {
  float of_outputs[kSlabs][2];
  float of_slots[(kTiles * 8 + 31) / 32];  // a lane has every 32nd

  __device__ Scales(const Call& call, const Item& item, int group) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int last = static_cast<int>(call.end.rows) - 1;
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      const bool is_up = call.up != nullptr && slab == 1;
      const float* scales = (is_up ? call.up : call.experts)[item.tile.expert].scales;
      const int n = item.FirstRow(call, group, slab) + FirstOfLane();
      of_outputs[slab][0] = scales[min(n, last)];
      of_outputs[slab][1] = scales[min(n + 8, last)];
    }
    int i = lane;
#pragma unroll
    for (float& scale : of_slots) {
      const int slot = item.tile.begin + min(i, item.tile.count - 1);
      scale = call.x_scales[call.row_of_slot == nullptr ? slot : call.row_of_slot[slot]];
      i += 32;
    }
  }
  // Of the two slots of this lane in a tile of sums. Every lane takes part.
  __device__ float2 OfSlots(int tile) const {
    const int from = tile % 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    return {__shfl_sync(~0u, of_slots[tile / 4], from),
            __shfl_sync(~0u, of_slots[tile / 4], from + 1)};
  }
  __device__ float Value(int slab, int c, std::int32_t sum, const float2& scales) const {
    return DequantizeSum(sum, c % 2 == 0 ? scales.x : scales.y, of_outputs[slab][c / 2]);
  }
};

template <typename Sum, int kTiles>
__device__ void StoreTile(const Call& call, const Item& item, int group,
                          const Scales<Sum, kTiles>& scales, const Sums<Sum, kTiles>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const ExpertTile& tile = item.tile;
  const float* bias = call.experts[tile.expert].bias;
  const float* up_bias = call.up != nullptr ? call.up[tile.expert].bias : nullptr;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const float2 of_slots = scales.OfSlots(j);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = j * 8 + lane % 4 * 2 + c % 2, slot = tile.begin + row;
      if (row >= tile.count) continue;
      const int n = item.FirstRow(call, group, 0) + FirstOfLane() + c / 2 * 8;
      const float low = scales.Value(0, c, sums[0][j][c], of_slots);
      const float high = scales.Value(1, c, sums[1][j][c], of_slots);
      if (call.up != nullptr) {
        call.end.StoreGated(slot, n, low, high, bias, up_bias);
      } else {
        call.end.Store(slot, n, low, bias);
        call.end.Store(slot, n + kSlabRows, high, bias);
      }
    }
  }
}

template <typename Weights, int kTiles>
__device__ void MultiplyTile(const Call& call, const Ring& ring, const Item& item, int group,
                             Place& place) {
  using S = Stage<Weights>;
  using Sum = typename Weights::Sum;
  const int chunks = call.chunks;
  const Scales<Sum, kTiles> scales(call, item, group);
  Sums<Sum, kTiles> sums = {};
  int before = -1;  // a stage that is read but not given back
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const unsigned char* stage = ring.bytes + place.stage * S::kBytes;
    Weights::template Multiply<kTiles>(stage, stage + S::kX, group, sums);
    // All products but this stage's are done.
    if (before >= 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance(S::kStages);
  }
  WaitForProducts();
  Pin(sums[0]);
  Pin(sums[1]);
  GiveBack(ring, before);
  StoreTile<Sum, kTiles>(call, item, group, scales, sums);
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
  constexpr bool kIsInt8 = std::is_same_v<typename Weights::Sum, std::int32_t>;
  const void* x = product.by_row ? product.x_of_slots : product.x;
  Call call{};
  if (kIsInt8) {
    call.x =
        MapOfInt8(static_cast<const std::int8_t*>(x), routes.slots(), part.stride, kXBoxRows, 1);
    call.x_scales = product.x_scales;
    call.row_of_slot = product.by_row ? routes.row : nullptr;
  } else {
    call.x = MapOfMatrix(static_cast<const __nv_bfloat16*>(x), routes.slots(), part.stride,
                         kXBoxRows, 1);
  }
  call.maps = part.maps;
  call.experts = part.experts;
  if (gated) {
    call.up_maps = product.up->maps;
    call.up = product.up->experts;
  }
  call.tiles = routes.many;
  call.end = {product.gate,       product.out.float32, product.out.bf16,
              product.out_stride, part.first_row,      part.rows};
  constexpr int kBoxOfColumns = kIsInt8 ? kInt8BoxColumns : kBoxColumns;
  call.chunks = static_cast<int>((part.stride + kBoxOfColumns - 1) / kBoxOfColumns);
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
  using Sum = float;
  static constexpr int kMostRows = kQuantisedExpertRows;
  static constexpr int kColumns = kBoxColumns;
  static constexpr int kRowTiles = kBlockRows / kTileRows;
  static constexpr int kAlong = kColumns / kTileColumns<kForm>;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kInt8 = kAlong * kTileBytes, kRecords = kAlong * kTileRecords;
  static constexpr int kBytes = kRowTiles * (kInt8 + kRecords);

#ifdef BANYAN_SM90A
  __device__ static int TilesOf(const Call& call) { return call.chunks * kAlong; }
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
                                  int group, Sums<float, kTiles>& sums) {
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
