// Products of experts that few rows chose: bound by memory, so weights stream through rings in
// shared memory. Every warp has its own ring and one or more units of 16 rows of weights, one after
// another without a gap, and waits for no other warp, but for codes of a gated product, whose gate
// and up are units of two warps that meet at a unit's end. The chain of matrix instructions is that
// of other products (device/mma.cuh).
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/expert_gate.cuh"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 2, kRows = kFewExpertRows;
constexpr int kColumns = 256;                     // of a stage
constexpr int kRingBytes = kColumns / 64 * 9216;  // of a warp: six warps on a multiprocessor
constexpr int kPieces = kColumns / 8;             // of 16 bytes in a row
constexpr int kAtOnce = 32 / kPieces;             // rows that a warp copies with one instruction
constexpr int kWarpBytes = 96 << 10;              // of weights, that a warp should have to read
static_assert(kWarps == 2, "of a pair");
static_assert(kRows == 8, "one column tile of the matrix instruction");

struct FewCall {
  ExpertRoutes routes;
  const ExpertMatrixPart *experts, *up;
  const __nv_bfloat16* x;
  ExpertEnd end;
  int stride;  // columns
  bool by_row;
  ExpertStart start;
  int units;  // of a warp, or of a pair of them
};

// 16-byte pieces of rows change places (piece ^ row % 8), so that matrix loads meet no conflict.
__device__ int PlaceOf(int row, int piece) { return row * kColumns * 2 + (piece ^ (row % 8)) * 16; }

// bf16: of a gated product 8 rows of gate, then 8 of up.
template <bool kGated>
struct PlainUnit {
  static constexpr bool kPaired = false;
  static constexpr int kBytes = 16 * kColumns * 2;
  static constexpr int kOutputs = kGated ? 8 : 16;
  const __nv_bfloat16 *gate, *up;
  int first, last;  // rows

  __device__ PlainUnit(const FewCall& call, int expert, int unit, int lane, int /*warp*/)
      : gate(static_cast<const __nv_bfloat16*>(call.experts[expert].weights) + lane % kPieces * 8),
        up(nullptr),
        first(unit * kOutputs),
        last(static_cast<int>(call.end.rows) - 1) {
    if (kGated) {
      up = static_cast<const __nv_bfloat16*>(call.up[expert].weights) + lane % kPieces * 8;
    }
  }
  __device__ void Copy(unsigned char* stage, int chunk, int stride, int lane) const {
    const int column = chunk * kColumns;
    if (column + lane % kPieces * 8 >= stride) return;
#pragma unroll
    for (int i = 0; i < 16; i += kAtOnce) {
      const int r = i + lane / kPieces;
      const __nv_bfloat16* from = kGated && r >= 8 ? up : gate;
      const std::int64_t row = min(first + (kGated ? r % 8 : r), last);
      CopyAsync(stage + PlaceOf(r, lane % kPieces), from + row * stride + column, true);
    }
  }
  __device__ void Next() { first += kOutputs; }
  __device__ static void Fragments(const unsigned char* stage, int step, int lane,
                                   std::uint32_t (&a)[4]) {
    LoadTiles(a, stage + PlaceOf(lane % 16, step * 2 + lane / 16));
  }
};

template <QuantisedForm kForm, bool kGated>
struct QuantisedUnit {
  static constexpr bool kPaired = kGated;
  static constexpr int kAlong = kColumns / kTileColumns<kForm>;  // tiles of a stage
  static constexpr int kInt8 = kAlong * kTileBytes;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kRecords = kAlong * kTileRecords;
  static constexpr int kBytes = kInt8 + kRecords;
  static constexpr int kOutputs = 16;
  const std::uint8_t *codes, *records;
  int tiles;

  __device__ QuantisedUnit(const FewCall& call, int expert, int unit, int lane, int warp)
      : tiles((call.stride + kTileColumns<kForm> - 1) / kTileColumns<kForm>) {
    const ExpertMatrixPart& part = (kGated && warp == 1 ? call.up : call.experts)[expert];
    const std::int64_t first = static_cast<std::int64_t>(unit) * tiles;
    codes = static_cast<const std::uint8_t*>(part.weights) + first * kTileBytes + lane * 16;
    records = part.records + first * kTileRecords + lane * 16;
  }
  __device__ void Copy(unsigned char* stage, int chunk, int /*stride*/, int lane) const {
    const int first = chunk * kAlong, count = min(kAlong, tiles - first);
#pragma unroll
    for (int i = 0; i < kAlong; ++i) {
      if (i < count) {
        CopyAsync(stage + i * kTileBytes + lane * 16, codes + (first + i) * kTileBytes, true);
      }
    }
#pragma unroll
    for (int at = 0; at < kRecords; at += 32 * 16) {  // of all lanes at once
      if (at + lane * 16 < count * kTileRecords) {
        CopyAsync(stage + kInt8 + at + lane * 16,
                  records + static_cast<std::int64_t>(first) * kTileRecords + at, true);
      }
    }
  }
  __device__ void Next() {
    codes += tiles * kTileBytes;
    records += tiles * kTileRecords;
  }
  __device__ static void Fragments(const unsigned char* stage, int step, int lane,
                                   std::uint32_t (&a)[4]) {
    const int tile = step / kTileSteps<kForm>;
    const uint4 four = *reinterpret_cast<const uint4*>(stage + tile * kTileBytes + lane * 16);
    const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
    const std::uint8_t* record =
        stage + kInt8 + tile * kTileRecords + lane / 4 * Form<kForm>::kRecordBytes;
    FragmentAt<kForm>(words, record, step % kTileSteps<kForm>, a);
  }
};

template <typename Unit>
struct UnitRing {
  static constexpr int kX = kRows * kColumns * 2;
  static constexpr int kStage = Unit::kBytes + kX;
  static constexpr int kStages = kRingBytes / kStage < 3   ? 3
                                 : kRingBytes / kStage > 8 ? 8
                                                           : kRingBytes / kStage;
  static constexpr int kBytes = kStages * kStage;
};

template <typename Unit, bool kGated>
__global__ void __launch_bounds__(kWarps * 32) FewRowsKernel(const __grid_constant__ FewCall call) {
  using R = UnitRing<Unit>;
  extern __shared__ __align__(128) unsigned char rings[];
  __shared__ float exchange[2][Unit::kPaired ? 32 : 1][4];  // sums of up
  if (call.start == ExpertStart::kWaits) WaitForEarlierKernels();
  LetNextKernelStart();  // the next kernel finds the routes
  // Someone ends after the kernel before this one.
  const auto end = [&] {
    if (blockIdx.x == 0 && blockIdx.y == 0) WaitForEarlierKernels();
  };
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kTeams = Unit::kPaired ? kWarps / 2 : kWarps;
  const int team = static_cast<int>(blockIdx.x) * kTeams + (Unit::kPaired ? 0 : warp);
  const int outputs = static_cast<int>(kGated ? call.end.stride : call.end.rows);
  const int all_units = (outputs + Unit::kOutputs - 1) / Unit::kOutputs;
  int unit = team * call.units;
  const int units = min(call.units, all_units - unit);
  const ExpertTile tile = call.routes.few.tiles[blockIdx.y];  // on its way beside the count
  if (static_cast<int>(blockIdx.y) >= *call.routes.few.count || units <= 0) {
    return end();
  }
  Unit weights(call, tile.expert, unit, lane, warp);  // of the next copy
  unsigned char* const ring = rings + warp * R::kBytes;
  const int chunks = (call.stride + kColumns - 1) / kColumns, all = units * chunks;
  int next = 0;  // chunk to be copied
  const auto copy_weights = [&](unsigned char* stage) {
    weights.Copy(stage, next, call.stride, lane);
    if (++next < chunks) return;
    next = 0;
    weights.Next();
  };
  for (int s = 0; s < R::kStages - 1; ++s) {
    if (s < all) copy_weights(ring + s * R::kStage);
    CommitCopies();
  }
  if (call.start == ExpertStart::kRoutesAreThere) WaitForEarlierKernels();
  // This lane has a piece of some rows of x.
  const int x_row = lane / kPieces, x_column = lane % kPieces * 8;
  int rows[kRows / kAtOnce];
#pragma unroll
  for (int i = 0; i < kRows / kAtOnce; ++i) {
    const int slot = tile.begin + min(i * kAtOnce + x_row, tile.count - 1);
    rows[i] = call.by_row ? call.routes.row[slot] : slot;
  }
  const auto for_x = [&](unsigned char* stage, int chunk, const auto& copy) {
    const int column = chunk * kColumns + x_column;
    if (column >= call.stride) return;
#pragma unroll
    for (int i = 0; i < kRows / kAtOnce; ++i) {
      const int r = i * kAtOnce + x_row;
      if (r >= tile.count) break;
      copy(stage + Unit::kBytes + PlaceOf(r, lane % kPieces),
           call.x + static_cast<std::int64_t>(rows[i]) * call.stride + column);
    }
  };
  // Not by asynchronous copies: those complete in order, so the first x would wait for all weights.
#pragma unroll
  for (int s = 0; s < R::kStages - 1; ++s) {
    if (s >= all) break;
    for_x(ring + s * R::kStage, s % chunks, [](unsigned char* to, const __nv_bfloat16* from) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    });
  }

  const float* bias = call.experts[tile.expert].bias;
  const float* up_bias = kGated ? call.up[tile.expert].bias : nullptr;
  float sums[4] = {};
  const auto store = [&] {
    float up[4] = {};
    if constexpr (Unit::kPaired) {
      // Two places alternate: a writer has met the reader of the first before it writes there
      // again.
      float(&place)[4] = exchange[unit % 2][lane];
      if (warp == 1) {
        for (int c = 0; c < 4; ++c) place[c] = sums[c];
      }
      __syncthreads();
      if (warp == 1) return;
      for (int c = 0; c < 4; ++c) up[c] = place[c];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = lane % 4 * 2 + c % 2, slot = tile.begin + row;
      if (row >= tile.count) continue;
      const int n = unit * Unit::kOutputs + lane / 4 + (c / 2) * 8;
      if constexpr (!kGated) {
        call.end.Store(slot, n, sums[c], bias);
      } else if constexpr (Unit::kPaired) {
        call.end.StoreGated(slot, n, sums[c], up[c], bias, up_bias);
      } else if (c < 2) {
        call.end.StoreGated(slot, n, sums[c], sums[c + 2], bias, up_bias);
      }
    }
  };
  int stage = 0, chunk = 0;
#pragma unroll 1
  for (int at = 0; at < all; ++at) {
    WaitForCopies<R::kStages - 2>();
    __syncwarp();  // this stage is there for all lanes, and the one before has been read
    if (at + R::kStages - 1 < all) {
      unsigned char* target = ring + (stage == 0 ? R::kStages - 1 : stage - 1) * R::kStage;
      for_x(target, next,
            [](unsigned char* to, const __nv_bfloat16* from) { CopyAsync(to, from, true); });
      copy_weights(target);
    }
    CommitCopies();
    const unsigned char* here = ring + stage * R::kStage;
    const int left = call.stride - chunk * kColumns;
    // Rows that are not there have columns of their own, which are not read.
    const auto load_x = [&](int pair, std::uint32_t(&b)[4]) {
      LoadTiles(b, here + Unit::kBytes + PlaceOf(lane % 8, pair * 4 + lane / 8));
    };
    if (left >= kColumns) {
      // Without branches: the next fragments are made while the last ones are multiplied.
      std::uint32_t a[2][2][4], b[2][4];
      load_x(0, b[0]);
      for (int half = 0; half < 2; ++half) Unit::Fragments(here, half, lane, a[0][half]);
#pragma unroll
      for (int pair = 0; pair < kColumns / 32; ++pair) {
        const int now = pair % 2, then = 1 - now;
        const bool more = pair + 1 < kColumns / 32;
        if (more) load_x(pair + 1, b[then]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Mma(sums, a[now][half], b[now][2 * half], b[now][2 * half + 1], __nv_bfloat16{});
          if (more) Unit::Fragments(here, pair * 2 + 2 + half, lane, a[then][half]);
        }
      }
    } else {
      for (int step = 0; step * 16 < left; ++step) {
        std::uint32_t a[4], b[4];
        load_x(step / 2, b);
        Unit::Fragments(here, step, lane, a);
        const bool odd = step % 2 != 0;
        Mma(sums, a, odd ? b[2] : b[0], odd ? b[3] : b[1], __nv_bfloat16{});
      }
    }
    stage = stage + 1 == R::kStages ? 0 : stage + 1;
    if (++chunk < chunks) continue;
    store();
    chunk = 0;
    ++unit;
    for (int c = 0; c < 4; ++c) sums[c] = 0.0f;
  }
  end();
}

template <typename Unit, bool kGated>
void Launch(cudaStream_t stream, FewCall call, int most_tiles) {
  constexpr int kBytes = kWarps * UnitRing<Unit>::kBytes;
  static_assert(kBytes <= 99 << 10);  // what a block may have from sm_80 on
  constexpr auto kernel = FewRowsKernel<Unit, kGated>;
  RaiseSharedMemory<kernel>(kBytes);
  // As many units as make the start of a warp cheap, but enough warps.
  const int outputs = static_cast<int>(kGated ? call.end.stride : call.end.rows);
  const int units = (outputs + Unit::kOutputs - 1) / Unit::kOutputs;
  const int chunks = (call.stride + kColumns - 1) / kColumns;
  const int enough = units * most_tiles * (Unit::kPaired ? 2 : 1) / (6 * Multiprocessors());
  call.units = std::clamp(std::min(kWarpBytes / (Unit::kBytes * chunks), enough), 1, 8);
  const int block_units = call.units * (Unit::kPaired ? kWarps / 2 : kWarps);
  const dim3 grid(static_cast<unsigned>((units + block_units - 1) / block_units),
                  static_cast<unsigned>(most_tiles));
  LaunchEarly(stream, {grid, kWarps * 32, kBytes}, "products of experts of few rows", kernel, call);
}

template <QuantisedForm kForm>
void LaunchQuantised(cudaStream_t stream, const FewCall& call, int most_tiles) {
  if (call.up != nullptr) {
    Launch<QuantisedUnit<kForm, true>, true>(stream, call, most_tiles);
  } else {
    Launch<QuantisedUnit<kForm, false>, false>(stream, call, most_tiles);
  }
}

}  // namespace

void MultiplyFewExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                           const ExpertProduct& product, ExpertStart start) {
  const ExpertPart& part = product.part;
  const FewCall call{routes,
                     part.experts,
                     product.up == nullptr ? nullptr : product.up->experts,
                     static_cast<const __nv_bfloat16*>(product.x),
                     {product.gate, product.out.float32, product.out.bf16, product.out_stride,
                      part.first_row, part.rows},
                     static_cast<int>(part.stride),
                     product.by_row,
                     start,
                     1};
  const int tiles = routes.most_few();
  if (part.form == ExpertForm::kBF16) {
    if (call.up != nullptr) return Launch<PlainUnit<true>, true>(stream, call, tiles);
    return Launch<PlainUnit<false>, false>(stream, call, tiles);
  }
  switch (part.quantised) {
    case QuantisedForm::kQ8_0:
      return LaunchQuantised<QuantisedForm::kQ8_0>(stream, call, tiles);
    case QuantisedForm::kQ4_0:
      return LaunchQuantised<QuantisedForm::kQ4_0>(stream, call, tiles);
    case QuantisedForm::kQ4_K:
      return LaunchQuantised<QuantisedForm::kQ4_K>(stream, call, tiles);
    case QuantisedForm::kQ6_K:
      return LaunchQuantised<QuantisedForm::kQ6_K>(stream, call, tiles);
    case QuantisedForm::kMXFP4:
      return LaunchQuantised<QuantisedForm::kMXFP4>(stream, call, tiles);
    case QuantisedForm::kQ4_1:
      return LaunchQuantised<QuantisedForm::kQ4_1>(stream, call, tiles);
    case QuantisedForm::kQ5_K:
      return LaunchQuantised<QuantisedForm::kQ5_K>(stream, call, tiles);
    case QuantisedForm::kIQ4_NL:
      return LaunchQuantised<QuantisedForm::kIQ4_NL>(stream, call, tiles);
  }
}

}  // namespace banyan::cuda
