// Products of int8 rows and weights, many rows (int8_many_rows.cu): how they are cut into tiles,
// the thread that loads the tiles' operands, and the store of the sums. As in many_rows.cu, for
// tiles of several sizes.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/device/wgmma.cuh"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda::int8_many {

inline constexpr int kSlabRows = 64;  // what one instruction takes
inline constexpr int kRowBytes = kInt8BoxColumns;
inline constexpr int kSlabBytes = kSlabRows * kRowBytes;
inline constexpr int kCluster = 2;       // blocks with the same rows and neighbouring columns
inline constexpr int kAlignment = 1024;  // of boxes
inline constexpr int kMostStages = 12;

// A block multiplies up to kSlabs slabs of rows by kWidth rows of w; with SwiGLU half of these are
// gates, the others the ups that belong to them. Warpgroups have every other slab, or
// alternate tiles (ping-pong): one stores its sums while the other one multiplies. The blocks of a
// cluster load every other slab of x for both.
template <int kSlabCount, int kWidthCount, bool kAlternates = false>
struct Tile {
  static constexpr int kSlabs = kSlabCount, kWidth = kWidthCount;
  static constexpr bool kPingPong = kAlternates;
  static constexpr int kRows = kSlabs * kSlabRows;
  static constexpr int kGroups = kSlabs == 1 ? 1 : 2;  // that multiply; one more loads operands
  static constexpr int kSlabStep = kPingPong ? 1 : kGroups;       // to a group's next slab
  static constexpr int kOfGroup = kSlabs / kSlabStep;             // slabs, at most
  static constexpr int kReaders = (kPingPong ? 1 : kGroups) * 4;  // warps of a block, of a stage
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
  // Chains of products that a group has in flight: with few sums a chain's latency would show (0.33
  // us for 128 of k, whatever the tile). A slab's chains are added at the end, exactly.
  static constexpr int kChains = std::max(1, 128 / (kOfGroup * kWidth / 2));
};

struct Call {
  CUtensorMap x, w;  // boxes of kSlabRows rows, and of kWidth (SwiGLU: kWidth / 2)
  Int8End end;
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

// The tiles of a cluster, one after another, in the order of many_rows.cu.
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
  const int chunks = call.inner / kInt8BoxColumns;
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

// --- The sums that a warpgroup has of a tile, to memory -----------------------------------------
template <typename T>
using Sums = std::int32_t[T::kOfGroup * T::kChains][T::kWidth / 8][4];  // chains of a slab together

// Two neighbouring sums of a row, times scales.
__device__ inline float2 ScaledPair(const std::int32_t* sums, float row_scale,
                                    const float2& scales) {
  return make_float2(DequantizeSum(sums[0], row_scale, scales.x),
                     DequantizeSum(sums[1], row_scale, scales.y));
}

// What belongs to two neighbouring outputs; weights' scales are constants.
__device__ inline float2 PairOf(const float* constants) {
  return __ldg(reinterpret_cast<const float2*>(constants));
}

// The sums of a group's slabs to memory, some blocks of 8 columns at a time: all loads for them are
// under way together, before the first is used. Rows of the warp's lanes are lane / 4 and that + 8,
// from `row` on. Nothing here branches: the end of a tile is bound by latency and instructions.
// kAdd stands for kBias too, whose bias is a row for all rows: with a load for each form into the
// same registers, the second one would wait for the first.
template <typename T, int kCount, ProductForm kForm>
__device__ void StoreSlabs(const Call& call, const Sums<T>& sums, int row, int column) {
  constexpr bool kAdds = kForm == ProductForm::kAdd;
  constexpr int kBlocks = 8 / kCount;  // as registers allow beside the sums
  constexpr int kRows = 2 * kCount;    // of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r0 = row + lane / 4, n0 = column + 2 * (lane % 4);
  const auto row_of = [](int i) { return i / 2 * T::kSlabStep * kSlabRows + i % 2 * 8; };
  const std::int64_t at = std::int64_t{call.out_stride} * r0 + n0;
  const bool is_bias = call.end.form == ProductForm::kBias;
  const float* added_from =
      is_bias ? call.end.end.bias + n0 : static_cast<const float*>(call.end.end.out) + at;
  const std::int64_t added_stride = is_bias ? 0 : call.out_stride;
  float row_scale[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int r = r0 + row_of(i);
    row_scale[i] = 0.0f;
    if (r < call.rows) row_scale[i] = call.end.x_scales[r];
  }
#pragma unroll
  for (int first = 0; first < T::kWidth / 8; first += kBlocks) {
    float2 scale[kBlocks], added[kBlocks][kAdds ? kRows : 1];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int c = (first + block) * 8;
      const bool is_column = n0 + c < call.outputs;
      scale[block] = make_float2(0.0f, 0.0f);
      if (is_column) scale[block] = PairOf(call.end.w_scales + n0 + c);
      if constexpr (kAdds) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const float* from = added_from + added_stride * row_of(i) + c;
          added[block][i] = make_float2(0.0f, 0.0f);
          if (is_column & (r0 + row_of(i) < call.rows)) {
            added[block][i] = *reinterpret_cast<const float2*>(from);
          }
        }
      }
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int c = (first + block) * 8;
      const bool is_column = n0 + c < call.outputs;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float2 value = ScaledPair(&sums[i / 2 * T::kChains][first + block][2 * (i % 2)],
                                  row_scale[i], scale[block]);
        if constexpr (kAdds) {
          const float2 more = added[block][i];
          value = make_float2(__fadd_rn(value.x, more.x), __fadd_rn(value.y, more.y));
        }
        const std::int64_t to = at + std::int64_t{call.out_stride} * row_of(i) + c;
        if constexpr (kForm == ProductForm::kBf16) {
          const __nv_bfloat162 rounded = __floats2bfloat162_rn(value.x, value.y);
          auto* out =
              reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) + to);
          if (is_column & (r0 + row_of(i) < call.rows)) *out = rounded;
        } else {
          auto* out = reinterpret_cast<float2*>(static_cast<float*>(call.end.end.out) + to);
          if (is_column & (r0 + row_of(i) < call.rows)) *out = value;
        }
      }
    }
  }
}

template <typename T, int kCount>
__device__ void StoreSlabs(const Call& call, const Sums<T>& sums, int row, int column) {
  if (call.end.form == ProductForm::kFloat32) {
    StoreSlabs<T, kCount, ProductForm::kFloat32>(call, sums, row, column);
  } else if (call.end.form == ProductForm::kBf16) {
    StoreSlabs<T, kCount, ProductForm::kBf16>(call, sums, row, column);
  } else {
    StoreSlabs<T, kCount, ProductForm::kAdd>(call, sums, row, column);
  }
}

// SwiGLU of a slab's sums; the gate's are the first half.
template <typename T>
__device__ void StoreGatedSlab(const Call& call, const std::int32_t (&sums)[T::kWidth / 8][4],
                               int row, int column) {
  constexpr int kBlocks = T::kWidth / 16, kTogether = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r0 = row + lane / 4, n0 = column + 2 * (lane % 4);
  const float row_scales[2] = {r0 < call.rows ? call.end.x_scales[r0] : 0.0f,
                               r0 + 8 < call.rows ? call.end.x_scales[r0 + 8] : 0.0f};
  const auto rounded = [](const float2& value) {
    return __bfloat1622float2(__floats2bfloat162_rn(value.x, value.y));
  };
#pragma unroll
  for (int first = 0; first < kBlocks; first += kTogether) {
    float2 for_gate[kTogether], for_up[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int n = n0 + (first + i) * 8;
      for_gate[i] = for_up[i] = make_float2(0.0f, 0.0f);
      if (n < call.outputs) for_gate[i] = PairOf(call.end.w_scales + n);
      if (n < call.outputs) for_up[i] = PairOf(call.end.w_scales + call.outputs + n);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int block = first + i, n = n0 + block * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = r0 + 8 * half;
        const float2 gate =
            rounded(ScaledPair(&sums[block][2 * half], row_scales[half], for_gate[i]));
        const float2 up =
            rounded(ScaledPair(&sums[kBlocks + block][2 * half], row_scales[half], for_up[i]));
        const __nv_bfloat162 both =
            __floats2bfloat162_rn(SwiGluOfBf16(gate.x, up.x), SwiGluOfBf16(gate.y, up.y));
        auto* out =
            reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) +
                                              static_cast<std::int64_t>(r) * call.out_stride + n);
        if ((r < call.rows) & (n < call.outputs)) *out = both;
      }
    }
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda::int8_many
