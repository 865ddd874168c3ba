// Products of few rows with bf16 and with int8 weights on Hopper, by the frame of few_rows.cuh. The
// element type is a policy. A box has 128 bytes of a row and takes four matrix instructions along k
// in either type, so stages, copies and loads from shared memory are the same; matrix instruction,
// sums and store differ.
#include <algorithm>

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/few_rows.cuh"
#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/products/product_store.cuh"

namespace banyan::cuda {
namespace {

using namespace few_rows;

constexpr int kMostWarps = 4;    // that multiply
constexpr int kMostStages = 32;  // of a ring
constexpr int kHalfRing = 111 << 10, kMostRing = 150 << 10;
constexpr int kBoxBytes = 128;  // of a row

template <typename End>
struct RingCall {
  CUtensorMap w, x;  // copies of a stage's boxes of all outputs of a block, and of all rows
  End end;
  int rows, outputs, inner, out_stride;
  int stages;  // of the ring
};

// A stage: kBoxes boxes of w (16 rows a warp), then as many of x (8 rows a tile).
template <typename Element, int kRowTiles, int kWarps>
struct Stage {
  static constexpr int kBoxes = Element::BoxesFor(kRowTiles);  // along k
  static constexpr int kChunk = kBoxes * Element::kColumns;
  static constexpr int kOutputs = kWarps * 16, kRows = kRowTiles * 8;
  static constexpr int kXOffset = kOutputs * kBoxes * kBoxBytes;
  static constexpr int kBytes = kXOffset + kRows * kBoxes * kBoxBytes;
  static_assert(kBoxes % 2 == 0, "fragments of boxes alternate between two buffers");
  static_assert(kChunk * Element::kBytes == kBoxes * kBoxBytes);
};

// Where a lane's sums go: sum c of row tile t is that of row 8 t + row + c % 2 and output
// n + 8 (c / 2).
struct SumPlace {
  int n, row;
};

// --- Element types ------------------------------------------------------------------------------
// Bits are those of MultiplyBF16: the same chain of matrix instructions over k.
template <ProductForm kForm>
struct Bf16Element {
  using Operands = ProductOperands;
  using Call = RingCall<ProductEnd>;
  static constexpr int kColumns = kBoxColumns, kBytes = 2;
  static constexpr const char* kName = "product of few rows";
  static constexpr int BoxesFor(int /*row_tiles*/) { return 4; }
  static constexpr auto kMap = MapOfMatrix;
  static ProductEnd EndOf(const Operands& operands) { return {operands.out, operands.bias}; }

#ifdef BANYAN_SM90A
  template <int kRowTiles>
  struct Sums {
    float sum[kRowTiles][4] = {};

    __device__ void Add(int /*step*/, int t, const std::uint32_t (&a)[4], std::uint32_t b0,
                        std::uint32_t b1) {
      Mma(sum[t], a, b0, b1, __nv_bfloat16{});
    }
    __device__ void Prepare(const Call& /*call*/, const SumPlace& /*at*/) {}
    // Leaves the sums zero.
    __device__ void Store(const Call& call, const SumPlace& at) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int r = t * 8 + at.row + c % 2, n = at.n + 8 * (c / 2);
          if (r < call.rows && n < call.outputs) {
            StoreSum<kForm>(call.end, static_cast<std::int64_t>(r) * call.out_stride + n, n,
                            sum[t][c]);
          }
          sum[t][c] = 0.0f;
        }
      }
    }
  };
#endif  // BANYAN_SM90A
};

// Half the bytes for the same values; and as the order of an integer sum is free, two chains of
// matrix instructions a tile.
struct Int8Element {
  using Operands = Int8Operands;
  using Call = RingCall<Int8End>;
  static constexpr int kColumns = kInt8BoxColumns, kBytes = 1;
  static constexpr const char* kName = "product of codes, few rows";
  static constexpr int BoxesFor(int row_tiles) { return row_tiles > 2 ? 2 : 4; }
  static constexpr auto kMap = MapOfInt8;
  static Int8End EndOf(const Operands& operands) { return cuda::EndOf(operands); }

#ifdef BANYAN_SM90A
  template <int kRowTiles>
  struct Sums {
    std::int32_t sum[2][kRowTiles][4] = {};
    // What belongs to a block's sums is loaded before they are made: at the end, one load after
    // another would take longer than the products.
    float w_scale[2], x_scale[kRowTiles][2];
    float added[kRowTiles][4];  // kAdd: what was there; kBias: the bias

    __device__ void Add(int step, int t, const std::uint32_t (&a)[4], std::uint32_t b0,
                        std::uint32_t b1) {
      MmaInt8(sum[step % 2][t], a, b0, b1);
    }
    __device__ void Prepare(const Call& call, const SumPlace& at) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        w_scale[c] = at.n + 8 * c < call.outputs ? call.end.w_scales[at.n + 8 * c] : 0.0f;
      }
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int r = t * 8 + at.row + c;
          x_scale[t][c] = r < call.rows ? call.end.x_scales[r] : 0.0f;
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int r = t * 8 + at.row + c % 2, n = at.n + 8 * (c / 2);
          added[t][c] = 0.0f;
          if (r >= call.rows || n >= call.outputs) continue;
          if (call.end.form == ProductForm::kAdd) {
            added[t][c] = static_cast<const float*>(
                call.end.end.out)[static_cast<std::int64_t>(r) * call.out_stride + n];
          } else if (call.end.form == ProductForm::kBias) {
            added[t][c] = call.end.end.bias[n];
          }
        }
      }
    }
    // Leaves the sums zero.
    __device__ void Store(const Call& call, const SumPlace& at) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const std::int32_t both = sum[0][t][c] + sum[1][t][c];
          sum[0][t][c] = sum[1][t][c] = 0;
          const int r = t * 8 + at.row + c % 2, n = at.n + 8 * (c / 2);
          if (r >= call.rows || n >= call.outputs) continue;
          float value = DequantizeSum(both, x_scale[t][c % 2], w_scale[c / 2]);
          const std::int64_t to = static_cast<std::int64_t>(r) * call.out_stride + n;
          if (call.end.form == ProductForm::kBf16) {
            static_cast<__nv_bfloat16*>(call.end.end.out)[to] = __float2bfloat16_rn(value);
            continue;
          }
          if (call.end.form != ProductForm::kFloat32) value = __fadd_rn(value, added[t][c]);
          static_cast<float*>(call.end.end.out)[to] = value;
        }
      }
    }
  };
#endif  // BANYAN_SM90A
};

// --- The kernel ---------------------------------------------------------------------------------
#ifdef BANYAN_SM90A

constexpr int kSteps = 4;  // of k in a box, each one matrix instruction

using Ring = CopyRing<kMostStages>;

// One thread.
template <typename Element, int kRowTiles, int kWarps>
__device__ void Fill(const typename Element::Call& call, const Ring& ring) {
  using S = Stage<Element, kRowTiles, kWarps>;
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const BlockOutputs outputs{int{S::kOutputs}, call.outputs,
                             (call.inner + S::kChunk - 1) / S::kChunk};
  FillRing(
      ring, call.stages, outputs,
      [&](int output, int chunk, int stage) {
        ArriveExpecting(ring.Full(stage), S::kBytes);
        CopyBoxes(ring.bytes + stage * S::kBytes, call.w, output, chunk * S::kBoxes,
                  ring.Full(stage), for_w);
      },
      [&](int chunk, int stage) {
        CopyBoxes(ring.bytes + stage * S::kBytes + S::kXOffset, call.x, 0, chunk * S::kBoxes,
                  ring.Full(stage), for_x);
      });
}

template <typename Element, int kRowTiles, int kWarps>
__device__ void Multiply(const typename Element::Call& call, const Ring& ring) {
  using S = Stage<Element, kRowTiles, kWarps>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = (call.inner + S::kChunk - 1) / S::kChunk;
  // Where this lane's row of a matrix load is in a box: 16 outputs and one step of k, 8 rows and
  // two.
  const int w_row = warp * 16 + lane % 16, x_row = lane % 8;
  const int w_place = w_row * kBoxBytes + (lane / 16 ^ w_row % 8) * 16;
  const int x_place = x_row * kBoxBytes + (lane / 8 ^ x_row) * 16 + S::kXOffset;
  // Fragments of a box, and those of the next box, which are loaded in the meantime.
  std::uint32_t a[2][kSteps][4], b[2][kSteps / 2][kRowTiles][4];
  const auto load = [&](const unsigned char* stage, int box, int buffer) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      LoadTiles(a[buffer][i], stage + (w_place ^ i * 32) + box * S::kOutputs * kBoxBytes);
    }
#pragma unroll
    for (int i = 0; i < kSteps / 2; ++i) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        LoadTiles(b[buffer][i][t],
                  stage + (x_place ^ i * 64) + (box * S::kRows + t * 8) * kBoxBytes);
      }
    }
  };
  typename Element::template Sums<kRowTiles> sums;
  const auto multiply = [&](int buffer) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const std::uint32_t(&two)[4] = b[buffer][step / 2][t];
        sums.Add(step, t, a[buffer][step], two[step % 2 * 2], two[step % 2 * 2 + 1]);
      }
    }
  };
  const auto place_of = [&](int block) {
    return SumPlace{block * S::kOutputs + warp * 16 + lane / 4, 2 * (lane % 4)};
  };

  const int blocks = (call.outputs + S::kOutputs - 1) / S::kOutputs;
  int block = static_cast<int>(blockIdx.x), chunk = 0;
  int left = ((blocks - 1 - block) / static_cast<int>(gridDim.x) + 1) * chunks;
  RingPlace place;
  sums.Prepare(call, place_of(block));
  Wait(ring.Full(0), 0);
  load(ring.bytes, 0, 0);
#pragma unroll 1
  for (; left > 0; --left) {
    const unsigned char* stage = ring.bytes + place.stage * S::kBytes;
    const RingPlace next = place.Next(call.stages);
#pragma unroll
    for (int box = 0; box + 1 < S::kBoxes; ++box) {
      load(stage, box + 1, (box + 1) % 2);
      multiply(box % 2);
    }
    if (left > 1) {
      Wait(ring.Full(next.stage), next.parity);
      load(ring.bytes + next.stage * S::kBytes, 0, 0);
    }
    multiply((S::kBoxes - 1) % 2);
    __syncwarp();
    if (lane == 0) Arrive(ring.Empty(place.stage));
    place = next;
    if (++chunk < chunks) continue;
    sums.Store(call, place_of(block));
    block += static_cast<int>(gridDim.x);
    if (block < blocks) sums.Prepare(call, place_of(block));
    chunk = 0;
  }
}

#endif  // BANYAN_SM90A

// A block takes 16 outputs a warp, then those of the block that is a grid further on.
template <typename Element, int kRowTiles, int kWarps>
__global__ void __launch_bounds__((kWarps + 1) * 32, 1)
    FewRowsKernel(const __grid_constant__ typename Element::Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t barriers[2 * kMostStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + GapToRing(unaligned), barriers};
  RunRing(
      ring, call.stages, kWarps,
      [&] {
        FetchMap(call.w);
        FetchMap(call.x);
      },
      [&] { Fill<Element, kRowTiles, kWarps>(call, ring); },
      [&] { Multiply<Element, kRowTiles, kWarps>(call, ring); });
#endif
}

// --- Launches -----------------------------------------------------------------------------------
template <typename Element, int kRowTiles, int kWarps>
void Launch(cudaStream_t stream, const typename Element::Operands& operands, RingSize ring) {
  using S = Stage<Element, kRowTiles, kWarps>;
  // A stage is given back after the first loads from the next one.
  static_assert((kHalfRing - kAlignment) / S::kBytes >= 2);
  constexpr auto kernel = FewRowsKernel<Element, kRowTiles, kWarps>;
  RaiseSharedMemory<kernel>(kMostRing);
  const ProductShape& shape = operands.shape;
  typename Element::Call call{};
  call.w = Element::kMap(operands.w, shape.outputs, shape.inner, S::kOutputs, S::kBoxes);
  call.x = Element::kMap(operands.x, shape.rows, shape.inner, S::kRows, S::kBoxes);
  call.end = Element::EndOf(operands);
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(shape.outputs);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  const int ring_bytes = (ring == RingSize::kHalf ? kHalfRing : kMostRing) - kAlignment;
  call.stages = std::min(kMostStages, ring_bytes / S::kBytes);
  const int blocks = (call.outputs + S::kOutputs - 1) / S::kOutputs;
  LaunchEarly(stream, ShapeOf(blocks, kWarps, call.stages, S::kBytes), Element::kName, kernel,
              call);
}

template <typename Element, int kRowTiles>
void LaunchFor(cudaStream_t stream, const typename Element::Operands& operands, RingSize ring) {
  const int tiles = static_cast<int>((operands.shape.outputs + 15) / 16);
  switch (WarpsFor(tiles, kMostWarps)) {
    case 1:
      return Launch<Element, kRowTiles, 1>(stream, operands, ring);
    case 2:
      return Launch<Element, kRowTiles, 2>(stream, operands, ring);
    case 3:
      return Launch<Element, kRowTiles, 3>(stream, operands, ring);
    default:
      return Launch<Element, kRowTiles, kMostWarps>(stream, operands, ring);
  }
}

template <ProductForm kForm>
void LaunchBf16(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  if (operands.shape.rows <= 8) {
    LaunchFor<Bf16Element<kForm>, 1>(stream, operands, ring);
  } else {
    LaunchFor<Bf16Element<kForm>, 2>(stream, operands, ring);
  }
}

}  // namespace

bool FewRowsCanServe(const ProductShape& shape) {
  return HasHopperKernels() && shape.rows >= 1 && shape.rows <= kMostFewRows &&
         shape.inner % kBoxColumns == 0;
}

void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  switch (operands.form) {
    case ProductForm::kFloat32:
      return LaunchBf16<ProductForm::kFloat32>(stream, operands, ring);
    case ProductForm::kAdd:
      return LaunchBf16<ProductForm::kAdd>(stream, operands, ring);
    case ProductForm::kBias:
      return LaunchBf16<ProductForm::kBias>(stream, operands, ring);
    case ProductForm::kBf16:
      return LaunchBf16<ProductForm::kBf16>(stream, operands, ring);
    case ProductForm::kSwiGlu:
      return Check(cudaErrorNotSupported, "SwiGLU of few rows in one step (see GateAndUp)");
  }
}

bool Int8FewRowsCanServe(const Int8Operands& operands) {
  const ProductShape& shape = operands.shape;
  return HasHopperKernels() && operands.form != ProductForm::kSwiGlu && shape.rows >= 1 &&
         shape.rows <= kMostInt8FewRows;
}

void MultiplyInt8FewRows(cudaStream_t stream, const Int8Operands& operands, RingSize ring) {
  if (operands.shape.rows <= 8) return LaunchFor<Int8Element, 1>(stream, operands, ring);
  if (operands.shape.rows <= 16) return LaunchFor<Int8Element, 2>(stream, operands, ring);
  LaunchFor<Int8Element, 4>(stream, operands, ring);
}

}  // namespace banyan::cuda
