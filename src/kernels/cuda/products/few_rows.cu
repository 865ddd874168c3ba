// Products of few rows on GPUs from sm_80 on, by asynchronous copies of 16 bytes; for Hopper see
// few_rows_ring.cu.
#include "kernels/cuda/products/few_rows.h"

#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/few_rows_ring.h"
#include "kernels/cuda/products/product_store.cuh"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kMostNarrowRows = 8;

struct FewRowsCall {
  const __nv_bfloat16* x;
  const __nv_bfloat16* w;
  ProductEnd end;
  int rows, outputs, inner, out_stride;
};

// A block computes tiles of 8 outputs a warp, in turn over the grid; kChunk values of k at a time
// pass through a ring of kStages stages. A stage holds rows of kChunk values, first of w, then of
// x, in pieces of 16 bytes that change places (piece ^ row % 8) so that matrix loads meet no
// conflict.
template <int kWarps, int kChunk, int kStages>
struct Ring {
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kOutputs = kWarps * 8;
  static constexpr int kPieces = kChunk / 8;
  static constexpr int kRowBytes = kChunk * 2;

  static size_t Bytes(std::int64_t rows) {
    return static_cast<size_t>(kStages * (kOutputs + rows) * kRowBytes);
  }
  __device__ static int Place(int row, int piece) {
    return row * kRowBytes + (piece ^ (row % 8)) * 16;
  }
};

// Which tile and chunk comes next, for the loads and for the products.
struct Cursor {
  int tile, chunk;
  __device__ void Advance(int chunks) {
    if (++chunk < chunks) return;
    chunk = 0;
    tile += static_cast<int>(gridDim.x);
  }
};

template <ProductForm kForm, int kWarps, int kChunk, int kStages>
__global__ void __launch_bounds__(kWarps * 32) FewRowsKernel(FewRowsCall call) {
  using R = Ring<kWarps, kChunk, kStages>;
  extern __shared__ __align__(128) unsigned char ring[];
  const int stage_bytes = (R::kOutputs + call.rows) * R::kRowBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = (call.inner + kChunk - 1) / kChunk;
  const int tiles = (call.outputs + R::kOutputs - 1) / R::kOutputs;
  const int own_tiles =
      (tiles - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
  const int total = own_tiles * chunks;

  const auto copy_w = [&](const Cursor& at, unsigned char* stage) {
#pragma unroll
    for (int i = 0; i < R::kOutputs * R::kPieces / R::kThreads; ++i) {
      const int p = i * R::kThreads + static_cast<int>(threadIdx.x);
      const int row = p / R::kPieces, piece = p % R::kPieces;
      const int k = at.chunk * kChunk + piece * 8;
      // Outputs past the end repeat the last one; they are not written.
      const int n = min(at.tile * R::kOutputs + row, call.outputs - 1);
      if (k < call.inner) {
        CopyAsync(stage + R::Place(row, piece),
                  call.w + static_cast<std::int64_t>(n) * call.inner + k, true);
      }
    }
  };
  const auto x_at = [&](const Cursor& at, int p) {
    const int k = at.chunk * kChunk + p % R::kPieces * 8;
    return k < call.inner ? call.x + static_cast<std::int64_t>(p / R::kPieces) * call.inner + k
                          : nullptr;
  };
  const auto x_place = [&](unsigned char* stage, int p) {
    return stage + R::kOutputs * R::kRowBytes + R::Place(p / R::kPieces, p % R::kPieces);
  };

  LetNextKernelStart();
  Cursor load{static_cast<int>(blockIdx.x), 0};
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < total) {
      copy_w(load, ring + s * stage_bytes);
      load.Advance(chunks);
    }
    CommitCopies();
  }
  WaitForEarlierKernels();
  // Not by asynchronous copies: those complete in order, so the first x would wait for all of w.
  Cursor first{static_cast<int>(blockIdx.x), 0};
  for (int s = 0; s < kStages - 1 && s < total; ++s, first.Advance(chunks)) {
    for (int p = static_cast<int>(threadIdx.x); p < call.rows * R::kPieces; p += R::kThreads) {
      const __nv_bfloat16* source = x_at(first, p);
      if (source != nullptr) {
        *reinterpret_cast<uint4*>(x_place(ring + s * stage_bytes, p)) =
            *reinterpret_cast<const uint4*>(source);
      }
    }
  }

  // Rows past the end repeat the last one; their sums are not written.
  const int w_row = warp * 8 + lane % 8;
  const int x_row = min(lane % 16, call.rows - 1);
  float sums[4] = {};
  std::uint32_t b_rest[2] = {};  // of w, for the odd steps
  Cursor now{static_cast<int>(blockIdx.x), 0};
  int stage = 0;
  for (int i = 0; i < total; ++i) {
    WaitForCopies<kStages - 2>();
    __syncthreads();  // stage i is there for all, and nobody reads stage i - 1 any more
    if (i + kStages - 1 < total) {
      unsigned char* next = ring + (stage == 0 ? kStages - 1 : stage - 1) * stage_bytes;
      copy_w(load, next);
      for (int p = static_cast<int>(threadIdx.x); p < call.rows * R::kPieces; p += R::kThreads) {
        const __nv_bfloat16* source = x_at(load, p);
        if (source != nullptr) CopyAsync(x_place(next, p), source, true);
      }
      load.Advance(chunks);
    }
    CommitCopies();

    const unsigned char* ws = ring + stage * stage_bytes;
    const unsigned char* xs = ws + R::kOutputs * R::kRowBytes;
    const int steps = min(kChunk, call.inner - now.chunk * kChunk) / 16;
    const auto multiply = [&](int step) {
      std::uint32_t b[4], a[4];
      if (step % 2 == 0) {
        LoadTiles(b, ws + R::Place(w_row, step * 2 + lane / 8));
        b_rest[0] = b[2];
        b_rest[1] = b[3];
      } else {
        b[0] = b_rest[0];
        b[1] = b_rest[1];
      }
      LoadTiles(a, xs + R::Place(x_row, step * 2 + lane / 16));
      Mma(sums, a, b[0], b[1], __nv_bfloat16{});
    };
    if (steps == kChunk / 16) {  // without branches: the loads run ahead of the products
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) multiply(step);
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; ++step) multiply(step);
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;

    if (now.chunk + 1 == chunks) {
      const int n = now.tile * R::kOutputs + warp * 8 + 2 * (lane % 4);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int r = lane / 4 + 8 * (c / 2);
        if (r < call.rows && n + c % 2 < call.outputs) {
          StoreSum<kForm>(call.end, static_cast<std::int64_t>(r) * call.out_stride + n + c % 2,
                          n + c % 2, sums[c]);
        }
        sums[c] = 0.0f;
      }
    }
    now.Advance(chunks);
  }
}

template <ProductForm kForm, int kWarps, int kChunk, int kStages>
void Launch(cudaStream_t stream, const FewRowsCall& call) {
  using R = Ring<kWarps, kChunk, kStages>;
  // At most 96 KiB of stages.
  constexpr std::int64_t kMostRows = kWarps == 2 ? kMostNarrowRows : kMostFewRows;
  const auto kernel = FewRowsKernel<kForm, kWarps, kChunk, kStages>;
  static int resident[kMostFewRows + 1] = {};  // blocks a multiprocessor, by rows; 0: not known yet
  int& blocks = resident[call.rows];
  const size_t bytes = R::Bytes(call.rows);
  if (blocks == 0) {
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(R::Bytes(kMostRows))),
          "shared memory of few rows");
    Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, R::kThreads, bytes),
          "blocks of few rows");
    if (blocks == 0) Check(cudaErrorInvalidConfiguration, "blocks of few rows");
  }
  const int tiles = (call.outputs + R::kOutputs - 1) / R::kOutputs;
  const auto grid = static_cast<unsigned>(std::min(tiles, blocks * Multiprocessors()));
  LaunchEarly(stream, {dim3(grid), R::kThreads, bytes}, "product of few rows", kernel, call);
}

template <ProductForm kForm>
void LaunchVariant(cudaStream_t stream, const FewRowsCall& call, FewRowsVariant variant) {
  if (variant == FewRowsVariant::k16Outputs) {
    Launch<kForm, 2, 256, 8>(stream, call);
  } else {
    Launch<kForm, 4, 128, 8>(stream, call);
  }
}

void MultiplyByTiles(cudaStream_t stream, const ProductOperands& operands, FewRowsVariant variant) {
  const ProductShape& shape = operands.shape;
  const FewRowsCall call{operands.x,
                         operands.w,
                         {operands.out, operands.bias},
                         static_cast<int>(shape.rows),
                         static_cast<int>(shape.outputs),
                         static_cast<int>(shape.inner),
                         static_cast<int>(shape.out_stride)};
  switch (operands.form) {
    case ProductForm::kFloat32:
      return LaunchVariant<ProductForm::kFloat32>(stream, call, variant);
    case ProductForm::kAdd:
      return LaunchVariant<ProductForm::kAdd>(stream, call, variant);
    case ProductForm::kBias:
      return LaunchVariant<ProductForm::kBias>(stream, call, variant);
    case ProductForm::kBf16:
      return LaunchVariant<ProductForm::kBf16>(stream, call, variant);
    case ProductForm::kSwiGlu:
      return Check(cudaErrorNotSupported, "SwiGLU of few rows in one step (see GateAndUp)");
  }
}

}  // namespace

bool FewRowsCanServe(FewRowsVariant variant, const ProductShape& shape) {
  if (shape.rows < 1 || shape.rows > kMostFewRows) return false;
  switch (variant) {
    case FewRowsVariant::k16Outputs:
      return shape.rows <= kMostNarrowRows;
    case FewRowsVariant::k32Outputs:
      return true;
    case FewRowsVariant::kHalfRing:
    case FewRowsVariant::kMostRing:
      return RingCanServe(shape);
  }
  return false;
}

std::vector<FewRowsVariant> FewRowsVariantsFor(const ProductShape& shape) {
  std::vector<FewRowsVariant> variants;
  for (const FewRowsVariant variant : kFewRowsVariants) {
    const bool tiles =
        variant == FewRowsVariant::k16Outputs || variant == FewRowsVariant::k32Outputs;
    if (tiles && RingCanServe(shape)) continue;  // on an H200 tiles never won
    if (FewRowsCanServe(variant, shape)) variants.push_back(variant);
  }
  return variants;
}

void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, FewRowsVariant variant) {
  if (!FewRowsCanServe(variant, operands.shape)) {
    Check(cudaErrorInvalidValue, "product of few rows");
  }
  switch (variant) {
    case FewRowsVariant::k16Outputs:
    case FewRowsVariant::k32Outputs:
      return MultiplyByTiles(stream, operands, variant);
    case FewRowsVariant::kHalfRing:
      return MultiplyByRing(stream, operands, RingSize::kHalf);
    case FewRowsVariant::kMostRing:
      return MultiplyByRing(stream, operands, RingSize::kMost);
  }
}

}  // namespace banyan::cuda
