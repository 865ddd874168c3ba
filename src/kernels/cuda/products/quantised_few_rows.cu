// Products of few rows with quantised weights on Hopper, by the frame of few_rows.cuh: codes and
// rows come through the ring, up to kMostWarps warps turn codes into fragments in registers and
// multiply. Each warp has 16 outputs and waits for the ring alone.
//
// An output is one chain of matrix instructions, 25 cycles for 16 of k, so what a warp does beside
// it must fit between two of them. The fragments of a tile are made while the tile before it is
// multiplied, across stages and units of outputs too.
#include <algorithm>

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/few_rows.cuh"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/cuda/products/quantised_products.h"
#include "kernels/cuda/rows/swiglu.cuh"
#include "kernels/cuda/weights/quantised_fragments.cuh"

namespace banyan::cuda {
namespace {

using namespace few_rows;

constexpr int kMostWarps = 12, kMostStages = 16;
constexpr int kRingBytes = 111 << 10;  // the next product finds room beside it
// Beside a long chain its early start gains less than a deeper ring.
constexpr int kLongRingBytes = 200 << 10, kLongColumns = 8192;

struct Call {
  CUtensorMap x;               // copies of a stage's boxes of all rows
  CUtensorMap codes, records;  // copies of a stage's tiles of `together` units
  ProductEnd end;
  ProductForm form;
  std::int64_t first_row;  // of w
  int rows, out_stride;
  int tiles;                // along k
  int units;                // of 16 outputs; with a gate of as many of gate and of up
  int warps;                // that multiply
  int together;             // units of a block: half as many with a gate, whose up comes after it
  int stages, stage_bytes;  // of the ring
};

// A stage: boxes of x (8 rows a tile, 64 of k), then the codes of all warps, then their records.
template <QuantisedForm kForm, int kRowTiles>
struct Stage {
  static constexpr int kTiles = Form<kForm>::kBits == 4 && kRowTiles > 2 ? 2 : 4;
  // As measured: eight bits meet the limit of memory with fewer warps.
  static constexpr int kMost = Form<kForm>::kBits == 8 ? 8 : kMostWarps;
  static constexpr int kColumns = kTiles * kTileColumns<kForm>;
  static constexpr int kBoxes = kColumns / kBoxColumns;
  static constexpr int kRows = kRowTiles * 8;
  static constexpr int kX = kBoxes * kRows * 128;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kCodes = kTiles * kTileBytes, kRecords = kTiles * kTileRecords;
  static constexpr int BytesFor(int warps) {
    return (kX + warps * (kCodes + kRecords) + kAlignment - 1) / kAlignment * kAlignment;
  }
};

#ifdef BANYAN_SM90A

struct Ring : CopyRing<kMostStages> {
  int stage_bytes;

  __device__ unsigned char* At(int stage) const { return bytes + stage * stage_bytes; }
};

// One thread.
template <QuantisedForm kForm, int kRowTiles>
__device__ void Fill(const Call& call, const Ring& ring) {
  using S = Stage<kForm, kRowTiles>;
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const BlockOutputs units{call.together, call.units, (call.tiles + S::kTiles - 1) / S::kTiles};
  FillRing(
      ring, call.stages, units,
      [&](int unit, int chunk, int stage) {
        std::uint64_t& full = ring.Full(stage);
        // What of a copy is outside the matrix counts as well. It is zero, and so are its products:
        // a last stage with fewer tiles is multiplied as a whole.
        ArriveExpecting(full, S::kX + call.warps * (S::kCodes + S::kRecords));
        unsigned char* codes = ring.At(stage) + S::kX;
        unsigned char* records = codes + call.warps * S::kCodes;
        for (int row = unit, done = 0; done < call.warps;
             row += call.units, done += call.together) {
          CopyRows(codes + done * S::kCodes, call.codes, row, chunk * (S::kCodes / 8), full, for_w);
          CopyRows(records + done * S::kRecords, call.records, row, chunk * (S::kRecords / 8), full,
                   for_w);
        }
      },
      [&](int chunk, int stage) {
        CopyBoxes(ring.At(stage), call.x, 0, chunk * S::kBoxes, ring.Full(stage), for_x);
      });
}

// What a warp does with its sums: element c of row tile t is row t * 8 + 2 (lane % 4) + c % 2 of
// output 16 unit + lane / 4 + 8 (c / 2).
template <int kRowTiles>
struct Outputs {
  static constexpr bool kFetches = kRowTiles <= 2;
  const Call& call;
  float* exchange;  // of this warp and the one of the same unit: [4, 32] floats
  float before[kFetches ? kRowTiles : 1][4] = {};

  template <typename Work>
  __device__ void ForEach(int unit, const Work& work) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (unit >= call.units) return;
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = t * 8 + lane % 4 * 2 + c % 2;
        if (row >= call.rows) continue;
        const std::int64_t output = call.first_row + unit * kTileRows + lane / 4 + c / 2 * 8;
        work(t, c, output, static_cast<std::int64_t>(row) * call.out_stride + output);
      }
    }
  }
  // What sums are added to, long before they are there.
  __device__ void Fetch(int unit) {
    if constexpr (kFetches) {
      if (call.form != ProductForm::kAdd) return;
      ForEach(unit, [&](int t, int c, std::int64_t /*output*/, std::int64_t at) {
        before[t][c] = static_cast<const float*>(call.end.out)[at];
      });
    }
  }
  __device__ void Store(int unit, float (&sums)[kRowTiles][4]) {
    if (call.form == ProductForm::kSwiGlu) return StoreGated(unit, sums);
    ForEach(unit, [&](int t, int c, std::int64_t output, std::int64_t at) {
      const float sum = sums[t][c];
      switch (call.form) {
        case ProductForm::kFloat32:
          return StoreSum<ProductForm::kFloat32>(call.end, at, output, sum);
        case ProductForm::kAdd:
          if constexpr (kFetches) {
            static_cast<float*>(call.end.out)[at] = __fadd_rn(before[t][c], sum);
            return;
          }
          return StoreSum<ProductForm::kAdd>(call.end, at, output, sum);
        case ProductForm::kBias:
          return StoreSum<ProductForm::kBias>(call.end, at, output, sum);
        default:
          return StoreSum<ProductForm::kBf16>(call.end, at, output, sum);
      }
    });
  }
  // Two warps have the sums of gate and up of a unit; the second hands its own over.
  __device__ void StoreGated(int unit, float (&sums)[kRowTiles][4]) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const bool up_warp = warp >= call.together;
    const int barrier = 1 + warp % call.together;
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      if (up_warp) {
#pragma unroll
        for (int c = 0; c < 4; ++c) exchange[c * 32 + lane] = sums[t][c];
      }
      SyncSome(barrier, 64);
      if (!up_warp) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int row = t * 8 + lane % 4 * 2 + c % 2;
          const int output = unit * kTileRows + lane / 4 + c / 2 * 8;
          const float gate = __bfloat162float(__float2bfloat16_rn(sums[t][c]));
          const float up = __bfloat162float(__float2bfloat16_rn(exchange[c * 32 + lane]));
          if (row >= call.rows || unit >= call.units) continue;
          static_cast<__nv_bfloat16*>(
              call.end.out)[static_cast<std::int64_t>(row) * call.out_stride + output] =
              __float2bfloat16_rn(SwiGluOfBf16(gate, up));
        }
      }
      SyncSome(barrier, 64);
    }
  }
};

template <QuantisedForm kForm, int kRowTiles>
__device__ void Multiply(const Call& call, const Ring& ring, float* exchange) {
  using S = Stage<kForm, kRowTiles>;
  constexpr int kSteps = kTileSteps<kForm>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = (call.tiles + S::kTiles - 1) / S::kTiles;
  const int w_place = S::kX + warp * S::kCodes + lane * 16;
  const int record_place =
      S::kX + call.warps * S::kCodes + warp * S::kRecords + lane / 4 * Form<kForm>::kRecordBytes;
  const int x_row = lane % 8;
  const int x_place = x_row * 128 + (lane / 8 ^ x_row) * 16;

  // Of two tiles: one is multiplied, the other is made in the meantime.
  std::uint32_t a[2][kSteps][4];
  // The rows of x beside them; of many rows only those of the next two steps.
  constexpr bool kAhead = kRowTiles <= 2;
  std::uint32_t b[kAhead ? 2 : 1][kAhead ? kSteps / 2 : 1][kRowTiles][4];
  const auto load_x = [&](const unsigned char* stage, int tile, int pair,
                          std::uint32_t(&to)[kRowTiles][4]) {
    const int at = tile * (kSteps / 2) + pair;  // of 32 columns
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      LoadTiles(to[t], stage + (x_place ^ at % 2 * 64) + (at / 2 * S::kRows + t * 8) * 128);
    }
  };
  float sums[kRowTiles][4] = {};
  const auto multiply = [&](const unsigned char* stage, int tile, int buffer, int step) {
    if (!kAhead && step % 2 == 0) load_x(stage, tile, step / 2, b[0][0]);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      const std::uint32_t(&two)[4] = b[kAhead ? buffer : 0][kAhead ? step / 2 : 0][t];
      Mma(sums[t], a[buffer][step], two[step % 2 * 2], two[step % 2 * 2 + 1], __nv_bfloat16{});
    }
  };
  // Makes the fragments of a tile; after each step's calls `between` with the step.
  const auto make = [&](const unsigned char* stage, int tile, int buffer, const auto& between) {
    const uint4 four = *reinterpret_cast<const uint4*>(stage + w_place + tile * kTileBytes);
    const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
    const std::uint8_t* record = stage + record_place + tile * S::kTileRecords;
    if constexpr (kAhead) {
#pragma unroll
      for (int pair = 0; pair < kSteps / 2; ++pair) load_x(stage, tile, pair, b[buffer][pair]);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      between(step);
      FragmentAt<kForm>(words, record, step, a[buffer][step]);
    }
  };

  const int first_unit = static_cast<int>(blockIdx.x) * call.together;
  const int stride = static_cast<int>(gridDim.x) * call.together;
  int unit = first_unit + warp % call.together;
  int left = ((call.units - 1 - first_unit) / stride + 1) * chunks;
  int chunk = 0;
  RingPlace place;
  Outputs<kRowTiles> outputs{call, exchange + warp % call.together * 128};
  outputs.Fetch(unit);
  Wait(ring.Full(0), 0);
  make(ring.At(0), 0, 0, [](int /*step*/) {});
#pragma unroll 1
  for (; left > 0; --left) {
    const unsigned char* stage = ring.At(place.stage);
    const RingPlace next = place.Next(call.stages);
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile) {
      const bool last = tile + 1 == S::kTiles;
      // After the last stage of all, what comes next is made of anything and not used.
      if (last && left > 1) Wait(ring.Full(next.stage), next.parity);
      make(last ? ring.At(next.stage) : stage, last ? 0 : tile + 1, (tile + 1) % 2,
           [&](int step) { multiply(stage, tile, tile % 2, step); });
    }
    __syncwarp();
    if (lane == 0) Arrive(ring.Empty(place.stage));
    place = next;
    if (++chunk < chunks) continue;
    outputs.Store(unit, sums);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[t][c] = 0.0f;
    }
    unit += stride;
    chunk = 0;
    outputs.Fetch(unit);
  }
}

#endif  // BANYAN_SM90A

// A block takes 16 outputs a warp, then those of the block that is a grid further on.
template <QuantisedForm kForm, int kRowTiles>
__global__ void __launch_bounds__((Stage<kForm, kRowTiles>::kMost + 1) * 32, 1)
    QuantisedFewRowsKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t barriers[2 * kMostStages];
  __shared__ float exchange[kMostWarps][4 * 32];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{{unaligned + GapToRing(unaligned), barriers}, call.stage_bytes};
  RunRing(
      ring, call.stages, call.warps,
      [&] {
        FetchMap(call.codes);
        FetchMap(call.records);
        FetchMap(call.x);
      },
      [&] { Fill<kForm, kRowTiles>(call, ring); },
      [&] { Multiply<kForm, kRowTiles>(call, ring, exchange[0]); });
#endif
}

template <QuantisedForm kForm, int kRowTiles>
void Launch(cudaStream_t stream, Call call, const QuantisedRows& w, const __nv_bfloat16* x) {
  using S = Stage<kForm, kRowTiles>;
  constexpr auto kernel = QuantisedFewRowsKernel<kForm, kRowTiles>;
  RaiseSharedMemory<kernel>(kLongRingBytes);
  const int ring_bytes = w.columns > kLongColumns ? kLongRingBytes : kRingBytes;
  const int of_unit = call.form == ProductForm::kSwiGlu ? 2 : 1;  // warps
  call.units = static_cast<int>(w.padded_rows / kTileRows) / of_unit;
  call.together = WarpsFor(call.units, S::kMost / of_unit);
  call.warps = call.together * of_unit;
  const std::int64_t tiles = TilesOf(w), row_tiles = w.padded_rows / kTileRows;
  call.tiles = static_cast<int>(tiles);
  call.x = MapOfMatrix(x, call.rows, w.columns, S::kRows, S::kBoxes);
  call.codes = MapOfRows(w.codes, row_tiles, tiles * kTileBytes, call.together, S::kCodes);
  call.records =
      MapOfRows(w.records, row_tiles, tiles * S::kTileRecords, call.together, S::kRecords);
  call.stage_bytes = S::BytesFor(call.warps);
  // A stage is given back after the first loads from the next one.
  static_assert((kRingBytes - kAlignment) / S::BytesFor(S::kMost) >= 2);
  call.stages = std::min(kMostStages, (ring_bytes - kAlignment) / call.stage_bytes);
  const int blocks = (call.units + call.together - 1) / call.together;
  LaunchEarly(stream, ShapeOf(blocks, call.warps, call.stages, call.stage_bytes),
              "product with compact weights", kernel, call);
}

template <QuantisedForm kForm>
void LaunchRows(cudaStream_t stream, const Call& call, const QuantisedRows& w,
                const __nv_bfloat16* x) {
  if (call.rows <= 8) return Launch<kForm, 1>(stream, call, w, x);
  if (call.rows <= 16) return Launch<kForm, 2>(stream, call, w, x);
  if (call.rows <= 32) return Launch<kForm, 4>(stream, call, w, x);
  Launch<kForm, 8>(stream, call, w, x);
}

}  // namespace

bool QuantisedFewRowsCanServe(const QuantisedRows& w) {
  return HasHopperKernels() && w.columns % kBoxColumns == 0;
}

void MultiplyQuantisedFewRows(cudaStream_t stream, const QuantisedRows& w,
                              const ProductOperands& operands) {
  const ProductShape& shape = operands.shape;
  if (shape.rows < 1 || shape.rows > kMostRingRows || shape.inner != w.columns) {
    Check(cudaErrorInvalidValue, "product with compact weights");
  }
  Call call{};
  call.end = {operands.out, operands.bias};
  call.form = operands.form;
  call.rows = static_cast<int>(shape.rows);
  call.first_row = w.first_row;
  call.out_stride = static_cast<int>(shape.out_stride);
  switch (w.form) {
    case QuantisedForm::kQ8_0:
      return LaunchRows<QuantisedForm::kQ8_0>(stream, call, w, operands.x);
    case QuantisedForm::kQ4_0:
      return LaunchRows<QuantisedForm::kQ4_0>(stream, call, w, operands.x);
    case QuantisedForm::kQ4_K:
      return LaunchRows<QuantisedForm::kQ4_K>(stream, call, w, operands.x);
    case QuantisedForm::kQ6_K:
      return LaunchRows<QuantisedForm::kQ6_K>(stream, call, w, operands.x);
    case QuantisedForm::kMXFP4:
      return LaunchRows<QuantisedForm::kMXFP4>(stream, call, w, operands.x);
    case QuantisedForm::kQ4_1:
      return LaunchRows<QuantisedForm::kQ4_1>(stream, call, w, operands.x);
    case QuantisedForm::kQ5_K:
      return LaunchRows<QuantisedForm::kQ5_K>(stream, call, w, operands.x);
    case QuantisedForm::kIQ4_NL:
      return LaunchRows<QuantisedForm::kIQ4_NL>(stream, call, w, operands.x);
  }
}

}  // namespace banyan::cuda
