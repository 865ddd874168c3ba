// Products of few rows with quantised weights: codes stream through a ring in shared memory, become
// bf16 in registers, and go into the same chain of matrix instructions as converted weights.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/cuda/products/quantised_products.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"

namespace banyan::cuda {

namespace {

struct QuantisedCall {
  QuantisedRows w;
  const __nv_bfloat16* x;
  ProductEnd end;
  ProductForm form;
  int rows, inner, row_tiles, tiles;
  std::int64_t out_stride;
};

// A warp takes 16 outputs; the warps of a block share the rows of x. A stage has four tiles of
// every warp, their records, and the columns of x that belong to them, whose pieces of 16 bytes
// change places (piece ^ row % 8) so that matrix loads meet no conflict.
template <QuantisedForm kForm, int kWarpCount, int kRowTiles, int kStageCount>
struct Ring {
  static constexpr int kWarps = kWarpCount, kStages = kStageCount;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kTiles = 4;
  static constexpr int kColumns = kTiles * kTileColumns<kForm>;
  static constexpr int kInt8 = kTiles * kTileBytes;
  static constexpr int kTileRecords = 8 * Form<kForm>::kRecordBytes;
  static constexpr int kRecords = kTiles * kTileRecords;
  static constexpr int kWeights = kWarps * (kInt8 + kRecords);
  static constexpr int kPieces = kColumns / 8;
  static constexpr int kStage = kWeights + kRowTiles * 8 * kColumns * 2;

  __device__ static int Codes(int warp) { return warp * kInt8; }
  __device__ static int Records(int warp) { return kWarps * kInt8 + warp * kRecords; }
  __device__ static int X(int row, int piece) {
    return kWeights + row * kColumns * 2 + (piece ^ (row % 8)) * 16;
  }
};

template <typename R>
__device__ void CopyWeights(const QuantisedCall& call, std::int64_t row_tile, int chunk,
                            unsigned char* stage) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = chunk * R::kTiles, count = min(R::kTiles, call.tiles - first);
  const std::int64_t at = row_tile * call.tiles + first;
  const std::uint8_t* codes = call.w.codes + at * kTileBytes;
#pragma unroll
  for (int i = 0; i < R::kTiles; ++i) {
    const int offset = i * kTileBytes + lane * 16;
    if (i < count) CopyAsync(stage + R::Codes(warp) + offset, codes + offset, true);
  }
#pragma unroll
  for (int first_byte = 0; first_byte < R::kRecords; first_byte += 32 * 16) {
    const int offset = first_byte + lane * 16;
    if (offset < count * R::kTileRecords) {
      CopyAsync(stage + R::Records(warp) + offset, call.w.records + at * R::kTileRecords + offset,
                true);
    }
  }
}

// Piece p of the columns of x in `chunk`; null: there is none.
template <typename R>
__device__ const __nv_bfloat16* PieceOfX(const QuantisedCall& call, int chunk, int p) {
  const int column = chunk * R::kColumns + p % R::kPieces * 8;
  if (column >= call.inner) return nullptr;
  return call.x + static_cast<std::int64_t>(p / R::kPieces) * call.inner + column;
}

template <QuantisedForm kForm, typename R, int kRowTiles>
__global__ void __launch_bounds__(R::kThreads) QuantisedKernel(QuantisedCall call) {
  extern __shared__ __align__(128) unsigned char ring[];
  const int me = static_cast<int>(threadIdx.x), warp = me / 32, lane = me % 32;
  // Warps past the end repeat the last tile; their sums are not written.
  const int wanted = static_cast<int>(blockIdx.x) * R::kWarps + warp;
  const std::int64_t row_tile = min(wanted, call.row_tiles - 1);
  const int chunks = (call.tiles + R::kTiles - 1) / R::kTiles;

  LetNextKernelStart();
  for (int s = 0; s < R::kStages - 1; ++s) {
    if (s < chunks) CopyWeights<R>(call, row_tile, s, ring + s * R::kStage);
    CommitCopies();
  }
  WaitForEarlierKernels();
  // Not by asynchronous copies: those complete in order, so the first x would wait for all weights.
  for (int s = 0; s < R::kStages - 1 && s < chunks; ++s) {
    for (int p = me; p < call.rows * R::kPieces; p += R::kThreads) {
      const __nv_bfloat16* source = PieceOfX<R>(call, s, p);
      if (source != nullptr) {
        *reinterpret_cast<uint4*>(ring + s * R::kStage + R::X(p / R::kPieces, p % R::kPieces)) =
            *reinterpret_cast<const uint4*>(source);
      }
    }
  }

  float sums[kRowTiles][4] = {};
  int stage = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<R::kStages - 2>();
    __syncthreads();  // this stage is there for all, and the one before has been read
    const int next = chunk + R::kStages - 1;
    if (next < chunks) {
      unsigned char* target = ring + (stage == 0 ? R::kStages - 1 : stage - 1) * R::kStage;
      CopyWeights<R>(call, row_tile, next, target);
      for (int p = me; p < call.rows * R::kPieces; p += R::kThreads) {
        const __nv_bfloat16* source = PieceOfX<R>(call, next, p);
        if (source != nullptr)
          CopyAsync(target + R::X(p / R::kPieces, p % R::kPieces), source, true);
      }
    }
    CommitCopies();

    const unsigned char* here = ring + stage * R::kStage;
#pragma unroll
    for (int i = 0; i < R::kTiles; ++i) {
      const int first_column = chunk * R::kColumns + i * kTileColumns<kForm>;
      if (first_column >= call.inner) break;
      const uint4 four =
          *reinterpret_cast<const uint4*>(here + R::Codes(warp) + i * kTileBytes + lane * 16);
      const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
      const std::uint8_t* record =
          here + R::Records(warp) + i * R::kTileRecords + lane / 4 * Form<kForm>::kRecordBytes;
#pragma unroll
      for (int step = 0; step < kTileSteps<kForm>; step += 2) {
        if (first_column + step * 16 >= call.inner) break;
        std::uint32_t b[kRowTiles][4];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
          // Rows past the end repeat the last one.
          const int row = min(t * 8 + lane % 8, call.rows - 1);
          const int piece = i * (kTileColumns<kForm> / 8) + step * 2 + lane / 8;
          LoadTiles(b[t], here + R::X(row, piece));
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t a[4];
          FragmentAt<kForm>(words, record, step + half, a);
#pragma unroll
          for (int t = 0; t < kRowTiles; ++t) {
            Mma(sums[t], a, b[t][2 * half], b[t][2 * half + 1], __nv_bfloat16{});
          }
        }
      }
    }
    stage = stage + 1 == R::kStages ? 0 : stage + 1;
  }

  if (wanted >= call.row_tiles) return;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = t * 8 + lane % 4 * 2 + c % 2;
      if (row >= call.rows) continue;
      const std::int64_t output = call.w.first_row + row_tile * kTileRows + lane / 4 + c / 2 * 8;
      const std::int64_t at = row * call.out_stride + output;
      switch (call.form) {
        case ProductForm::kFloat32:
          StoreSum<ProductForm::kFloat32>(call.end, at, output, sums[t][c]);
          break;
        case ProductForm::kAdd:
          StoreSum<ProductForm::kAdd>(call.end, at, output, sums[t][c]);
          break;
        case ProductForm::kBias:
          StoreSum<ProductForm::kBias>(call.end, at, output, sums[t][c]);
          break;
        case ProductForm::kBf16:
          StoreSum<ProductForm::kBf16>(call.end, at, output, sums[t][c]);
          break;
        case ProductForm::kSwiGlu:  // in two steps, see GateAndUp
          break;
      }
    }
  }
}

template <QuantisedForm kForm, int kWarps, int kRowTiles, int kStages>
void Launch(cudaStream_t stream, const QuantisedCall& call) {
  using R = Ring<kForm, kWarps, kRowTiles, kStages>;
  constexpr int kBytes = R::kStages * R::kStage;
  static_assert(kBytes <= 99 << 10);  // what a block may have from sm_80 on
  const auto kernel = QuantisedKernel<kForm, R, kRowTiles>;
  RaiseSharedMemory<QuantisedKernel<kForm, R, kRowTiles>>(kBytes);
  const auto grid = static_cast<unsigned>((call.row_tiles + kWarps - 1) / kWarps);
  LaunchEarly(stream, {dim3(grid), R::kThreads, kBytes}, "product with compact weights", kernel,
              call);
}

// Four bits: four tiles are 256 columns; eight bits: 128, so x takes half the room.
template <QuantisedForm kForm>
void LaunchRows(cudaStream_t stream, const QuantisedCall& call) {
  if (call.rows <= 8) return Launch<kForm, 2, 1, 6>(stream, call);
  if (call.rows <= 16) return Launch < kForm, 4, 2, kFiveBits<kForm> ? 4 : 5 > (stream, call);
  Launch<kForm, 4, 4, 3>(stream, call);
}

}  // namespace

void MultiplyQuantised(cudaStream_t stream, const QuantisedRows& w,
                       const ProductOperands& operands) {
  const ProductShape& shape = operands.shape;
  if (shape.rows < 1 || shape.rows > kMostQuantisedRows || shape.inner != w.columns) {
    Check(cudaErrorInvalidValue, "product with compact weights");
  }
  QuantisedCall call;
  call.w = w;
  call.x = operands.x;
  call.end = {operands.out, operands.bias};
  call.form = operands.form;
  call.rows = static_cast<int>(shape.rows);
  call.inner = static_cast<int>(shape.inner);
  call.row_tiles = static_cast<int>(w.padded_rows / kTileRows);
  call.tiles = static_cast<int>(TilesOf(w));
  call.out_stride = shape.out_stride;
  switch (w.form) {
    case QuantisedForm::kQ8_0:
      return LaunchRows<QuantisedForm::kQ8_0>(stream, call);
    case QuantisedForm::kQ4_0:
      return LaunchRows<QuantisedForm::kQ4_0>(stream, call);
    case QuantisedForm::kQ4_K:
      return LaunchRows<QuantisedForm::kQ4_K>(stream, call);
    case QuantisedForm::kQ6_K:
      return LaunchRows<QuantisedForm::kQ6_K>(stream, call);
    case QuantisedForm::kMXFP4:
      return LaunchRows<QuantisedForm::kMXFP4>(stream, call);
    case QuantisedForm::kQ4_1:
      return LaunchRows<QuantisedForm::kQ4_1>(stream, call);
    case QuantisedForm::kQ5_K:
      return LaunchRows<QuantisedForm::kQ5_K>(stream, call);
    case QuantisedForm::kIQ4_NL:
      return LaunchRows<QuantisedForm::kIQ4_NL>(stream, call);
  }
}

namespace {

// Reading codes of about five bits for every 32 rows costs less than writing and reading 16 bits
// once, up to about this many rows.
constexpr std::int64_t kMostRowsFromCodes = 128;
static_assert(kMostRowsFromCodes >= kMostFewRows,
              "products of few rows fetch weights early, before a scratch of them is written");
// Larger matrices (the logits of a large vocabulary) are not worth a scratch of their own.
constexpr std::int64_t kMostScratchBytes = std::int64_t{1} << 30;

std::int64_t UnpackedBytes(const DeviceMatrix& w) { return w.padded_rows * w.stride * 2; }

// Gate and up of one form in whole tiles.
bool GatesInOneStep(const DeviceMatrix& w) {
  return w.quantised.size() == 1 && w.rows % (2 * kTileRows) == 0 &&
         QuantisedFewRowsCanServe(w.quantised.front());
}

}  // namespace

void QuantisedProducts::Reserve(const DeviceMatrix& w) {
  const std::int64_t bytes = UnpackedBytes(w);
  if (bytes > kMostScratchBytes || bytes <= scratch_.memory.bytes()) return;
  scratch_.memory = {};
  scratch_.memory = DeviceMemory(device_, bytes, "unpacked weights");
}

bool QuantisedProducts::Unpacks(const DeviceMatrix& w, std::int64_t rows) const {
  return rows > kMostRowsFromCodes && UnpackedBytes(w) <= scratch_.memory.bytes();
}

void QuantisedProducts::Unpack(const DeviceMatrix& w) {
  scratch_.form = WeightForm::kBF16;
  scratch_.rows = w.rows;
  scratch_.columns = w.columns;
  scratch_.stride = w.stride;
  scratch_.padded_rows = w.padded_rows;
  scratch_.fresh = true;
  for (const QuantisedRows& rows : w.quantised) {
    UnpackRows(device_->stream, rows, w.stride,
               scratch_.memory.As<__nv_bfloat16>() + rows.first_row * w.stride);
  }
}

void QuantisedProducts::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                                 const Products::Target& target) {
  if (Unpacks(w, rows)) {
    Unpack(w);
    return products_.Multiply(x, rows, scratch_, target);
  }
  if (target.form == ProductForm::kSwiGlu && !GatesInOneStep(w)) {
    Multiply(x, rows, w, {ProductForm::kBf16, target.scratch});
    ProductOperands gated = OperandsOf(x, rows, w, target.form);
    gated.out = target.out;
    gated.scratch = target.scratch;
    return ApplySwiGlu(device_->stream, gated);
  }
  for (const QuantisedRows& part : w.quantised) {
    const bool ring = QuantisedFewRowsCanServe(part);
    const std::int64_t most = ring ? kMostRingRows : kMostQuantisedRows;
    for (std::int64_t begin = 0; begin < rows; begin += most) {
      ProductOperands operands;
      operands.x = x + begin * w.stride;
      operands.form = target.form;
      operands.bias = target.bias;
      const std::int64_t stride = OutputStride(w, target.form);
      operands.out =
          static_cast<std::byte*>(target.out) + begin * stride * ElementBytes(target.form);
      operands.shape = {std::min(most, rows - begin), part.padded_rows, w.stride, stride};
      (ring ? MultiplyQuantisedFewRows : MultiplyQuantised)(device_->stream, part, operands);
    }
  }
}

}  // namespace banyan::cuda
