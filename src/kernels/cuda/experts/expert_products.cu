// Products grouped by expert: which kernels serve, and the plain ones, of float32 weights and of
// what the others cannot serve. There a warp takes 16 outputs and the rows of a tile, operands
// straight from memory; every output is the same chain of matrix instructions as in other products
// (device/mma.cuh), of fused multiply-adds in float32.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"
#include "kernels/int8.h"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4, kRowTiles = kPlainExpertRows / 8;

// Lanes of a matrix instruction hold the same bytes of bf16 values and of codes.
__device__ void AddProducts(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) {
  Mma(sums, a, b0, b1, __nv_bfloat16{});
}
__device__ void AddProducts(std::int32_t (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) {
  MmaInt8(sums, a, b0, b1);
}

template <typename Element>
__device__ std::uint32_t Word(const Element* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
}

// The x of the slot's row or of the slot itself. Slots past the end repeat the last one.
template <typename X>
__device__ const X* RowOfTile(const ExpertRoutes& routes, const ExpertProduct& product,
                              const ExpertTile& tile, int i) {
  const int slot = tile.begin + min(i, tile.count - 1);
  const std::int64_t row = product.by_row ? routes.row[slot] : slot;
  return static_cast<const X*>(product.x) + row * product.part.stride;
}

__device__ float ValueOf(const ExpertRoutes& /*routes*/, const ExpertProduct& /*product*/,
                         const ExpertMatrixPart& /*weights*/, int /*slot*/, std::int64_t /*n*/,
                         float sum) {
  return sum;
}
__device__ float ValueOf(const ExpertRoutes& routes, const ExpertProduct& product,
                         const ExpertMatrixPart& weights, int slot, std::int64_t n,
                         std::int32_t sum) {
  const std::int64_t row = product.by_row ? routes.row[slot] : slot;
  return DequantizeSum(sum, product.x_scales[row], weights.scales[n]);
}

__device__ void StoreExpertSum(const ExpertProduct& product, const ExpertMatrixPart& weights,
                               int slot, std::int64_t n, float sum) {
  if (weights.bias != nullptr) sum = __fadd_rn(sum, weights.bias[n]);
  product.out.float32[slot * product.out_stride + product.part.first_row + n] = sum;
}

// bf16 rows.
struct PlainWeights {
  static constexpr int kColumns = 16;  // that Steps goes through
  using Sum = float;
  using X = __nv_bfloat16;
  const __nv_bfloat16* low;
  std::int64_t eight_rows;

  __device__ PlainWeights(const ExpertPart& part, const ExpertMatrixPart& weights,
                          std::int64_t row_tile, int lane)
      : low(static_cast<const __nv_bfloat16*>(weights.weights) +
            (row_tile * 16 + lane / 4) * part.stride + lane % 4 * 2),
        eight_rows(8 * part.stride) {}
  // multiply(column, fragment) for every 16 columns from `column` on.
  template <typename Multiply>
  __device__ void Steps(std::int64_t column, std::int64_t /*columns*/,
                        const Multiply& multiply) const {
    const __nv_bfloat16* at = low + column;
    const std::uint32_t a[4] = {Word(at), Word(at + eight_rows), Word(at + 8),
                                Word(at + eight_rows + 8)};
    multiply(column, a);
  }
};

// int8 rows: as those of bf16, four columns where two were.
struct Int8Weights {
  using Sum = std::int32_t;
  using X = std::int8_t;
  static constexpr int kColumns = 32;
  const std::int8_t* low;
  std::int64_t eight_rows;

  __device__ Int8Weights(const ExpertPart& part, const ExpertMatrixPart& weights,
                         std::int64_t row_tile, int lane)
      : low(static_cast<const std::int8_t*>(weights.weights) +
            (row_tile * 16 + lane / 4) * part.stride + lane % 4 * 4),
        eight_rows(8 * part.stride) {}
  template <typename Multiply>
  __device__ void Steps(std::int64_t column, std::int64_t /*columns*/,
                        const Multiply& multiply) const {
    const std::int8_t* at = low + column;
    const std::uint32_t a[4] = {Word(at), Word(at + eight_rows), Word(at + 16),
                                Word(at + eight_rows + 16)};
    multiply(column, a);
  }
};

template <QuantisedForm kForm>
struct QuantisedWeights {
  using Sum = float;
  using X = __nv_bfloat16;
  static constexpr int kColumns = kTileColumns<kForm>;
  const std::uint8_t* codes;
  const std::uint8_t* records;

  __device__ QuantisedWeights(const ExpertPart& part, const ExpertMatrixPart& weights,
                              std::int64_t row_tile, int lane) {
    const std::int64_t first = row_tile * ((part.stride + kColumns - 1) / kColumns);
    codes = static_cast<const std::uint8_t*>(weights.weights) + first * kTileBytes + lane * 16;
    records = weights.records + (first * 8 + lane / 4) * Form<kForm>::kRecordBytes;
  }
  template <typename Multiply>
  __device__ void Steps(std::int64_t column, std::int64_t columns, const Multiply& multiply) const {
    const std::int64_t tile = column / kColumns;
    const uint4 four = *reinterpret_cast<const uint4*>(codes + tile * kTileBytes);
    const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
    const std::uint8_t* record = records + tile * 8 * Form<kForm>::kRecordBytes;
#pragma unroll
    for (int step = 0; step < kTileSteps<kForm>; ++step) {
      if (column + step * 16 >= columns) break;
      std::uint32_t a[4];
      FragmentAt<kForm>(words, record, step, a);
      multiply(column + step * 16, a);
    }
  }
};

template <typename Weights>
__global__ void __launch_bounds__(kWarps * 32)
    ExpertKernel(ExpertRoutes routes, ExpertProduct product) {
  WaitForEarlierKernels();
  LetNextKernelStart();
  if (static_cast<int>(blockIdx.y) >= *routes.many.count) return;
  const ExpertTile tile = routes.many.tiles[blockIdx.y];
  const ExpertPart& part = product.part;
  const ExpertMatrixPart weights = part.experts[tile.expert];
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const std::int64_t row_tile =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row_tile * 16 >= part.rows) return;
  const Weights w(part, weights, row_tile, lane);
  using X = typename Weights::X;
  constexpr int kPerWord = 4 / sizeof(X);
  const X* xs[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    xs[i] = RowOfTile<X>(routes, product, tile, i * 8 + g) + kPerWord * t;
  }
  typename Weights::Sum sums[kRowTiles][4] = {};
  const auto multiply = [&](std::int64_t k, const std::uint32_t(&a)[4]) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      if (i * 8 >= tile.count) break;  // the same for the whole block
      AddProducts(sums[i], a, Word(xs[i] + k), Word(xs[i] + k + 4 * kPerWord));
    }
  };
#pragma unroll 4
  for (std::int64_t column = 0; column < part.stride; column += Weights::kColumns) {
    w.Steps(column, part.stride, multiply);
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int r = i * 8 + 2 * t + c % 2;
      const std::int64_t n = row_tile * 16 + g + 8 * (c / 2);
      if (r < tile.count && n < part.rows) {
        const int slot = tile.begin + r;
        StoreExpertSum(product, weights, slot, n,
                       ValueOf(routes, product, weights, slot, n, sums[i][c]));
      }
    }
  }
}

// Float32: blocks of 64 outputs and a tile's rows, eight sums a thread.
constexpr int kBlock = 64, kStep = 16, kThreadsF32 = 256;

__global__ void __launch_bounds__(kThreadsF32)
    ExpertKernelF32(ExpertRoutes routes, ExpertProduct product) {
  WaitForEarlierKernels();
  LetNextKernelStart();
  if (static_cast<int>(blockIdx.y) >= *routes.many.count) return;
  __shared__ float xs[kStep][kPlainExpertRows + 4], ws[kStep][kBlock + 4];
  const ExpertTile tile = routes.many.tiles[blockIdx.y];
  const ExpertPart& part = product.part;
  const ExpertMatrixPart weights = part.experts[tile.expert];
  const auto* w = static_cast<const float*>(weights.weights);
  const std::int64_t out0 = static_cast<std::int64_t>(blockIdx.x) * kBlock;
  const int me = static_cast<int>(threadIdx.x), tx = me % 16, ty = me / 16;
  float sums[2][4] = {};
  for (std::int64_t k = 0; k < part.stride; k += kStep) {
    for (int i = me; i < kBlock * kStep; i += kThreadsF32) {
      const int r = i / kStep, c = i % kStep;
      ws[c][r] = out0 + r < part.rows ? w[(out0 + r) * part.stride + k + c] : 0.0f;
      if (r < kPlainExpertRows) {
        xs[c][r] = RowOfTile<float>(routes, product, tile, r)[k + c];
      }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kStep; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] = fmaf(xs[c][ty + 16 * i], ws[c][tx + 16 * j], sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = ty + 16 * i;
      const std::int64_t n = out0 + tx + 16 * j;
      if (r < tile.count && n < part.rows) {
        StoreExpertSum(product, weights, tile.begin + r, n, sums[i][j]);
      }
    }
  }
}

template <typename Weights>
void Launch(cudaStream_t stream, const ExpertRoutes& routes, const ExpertProduct& product) {
  const std::int64_t row_tiles = (product.part.rows + 15) / 16;
  const dim3 grid(static_cast<unsigned>((row_tiles + kWarps - 1) / kWarps),
                  static_cast<unsigned>(routes.most_many()));
  LaunchEarly(stream, {grid, kWarps * 32}, "products of experts", ExpertKernel<Weights>, routes,
              product);
}

void MultiplyPlainExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                             const ExpertProduct& product) {
  if (product.part.form == ExpertForm::kF32) {
    const dim3 grid(static_cast<unsigned>((product.part.rows + kBlock - 1) / kBlock),
                    static_cast<unsigned>(routes.most_many()));
    return LaunchEarly(stream, {grid, kThreadsF32}, "products of experts", ExpertKernelF32, routes,
                       product);
  }
  if (product.part.form == ExpertForm::kBF16) {
    return Launch<PlainWeights>(stream, routes, product);
  }
  if (product.part.form == ExpertForm::kInt8) return Launch<Int8Weights>(stream, routes, product);
  switch (product.part.quantised) {
    case QuantisedForm::kQ8_0:
      return Launch<QuantisedWeights<QuantisedForm::kQ8_0>>(stream, routes, product);
    case QuantisedForm::kQ4_0:
      return Launch<QuantisedWeights<QuantisedForm::kQ4_0>>(stream, routes, product);
    case QuantisedForm::kQ4_K:
      return Launch<QuantisedWeights<QuantisedForm::kQ4_K>>(stream, routes, product);
    case QuantisedForm::kQ6_K:
      return Launch<QuantisedWeights<QuantisedForm::kQ6_K>>(stream, routes, product);
    case QuantisedForm::kMXFP4:
      return Launch<QuantisedWeights<QuantisedForm::kMXFP4>>(stream, routes, product);
    case QuantisedForm::kQ4_1:
      return Launch<QuantisedWeights<QuantisedForm::kQ4_1>>(stream, routes, product);
    case QuantisedForm::kQ5_K:
      return Launch<QuantisedWeights<QuantisedForm::kQ5_K>>(stream, routes, product);
    case QuantisedForm::kIQ4_NL:
      return Launch<QuantisedWeights<QuantisedForm::kIQ4_NL>>(stream, routes, product);
  }
}

}  // namespace

void MultiplyExperts(cudaStream_t stream, const ExpertRoutes& routes,
                     const ExpertProduct& product) {
  if (routes.slots() == 0) return;
  const ExpertStart start =
      product.routes_are_there ? ExpertStart::kRoutesAreThere : ExpertStart::kWaits;
  const bool few = routes.most_few() > 0, many = routes.most_many() > 0;
  if (many && routes.tiling.many > kPlainExpertRows) {
    MultiplyManyExpertRows(stream, routes, product, start);
    if (few) MultiplyFewExpertRows(stream, routes, product, ExpertStart::kBeside);
    return;
  }
  if (many) MultiplyPlainExpertRows(stream, routes, product);
  if (few) {
    MultiplyFewExpertRows(stream, routes, product, many ? ExpertStart::kWaits : start);
  }
}

}  // namespace banyan::cuda
