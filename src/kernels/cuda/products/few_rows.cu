#include "kernels/cuda/products/few_rows.h"

#include <algorithm>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/tensor_copy.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/copy_ring.cuh"
#include "kernels/cuda/products/product_store.cuh"

namespace banyan::cuda {
namespace {

constexpr int kMostWarps = 4;    // that multiply
constexpr int kMostStages = 32;  // of a ring
constexpr int kHalfRing = 111 << 10, kMostRing = 150 << 10;
constexpr int kBoxes = 4;  // of a stage, along k
constexpr int kChunk = kBoxes * kBoxColumns;

struct RingCall {
  CUtensorMap w, x;  // copies of kBoxes boxes of all outputs of a block, and of all rows
  ProductEnd end;
  int rows, outputs, inner, out_stride;
  int stages;  // of the ring
};

// A stage: kBoxes boxes of w (16 rows a warp), then as many of x (8 rows a tile).
template <int kRowTiles, int kWarps>
struct Stage {
  static constexpr int kOutputs = kWarps * 16, kRows = kRowTiles * 8;
  static constexpr int kXOffset = kOutputs * kChunk * 2;
  static constexpr int kBytes = kXOffset + kRows * kChunk * 2;
};

#ifdef BANYAN_SM90A

constexpr int kSteps = kBoxColumns / 16;  // of k in a box, each one matrix instruction
static_assert(kBoxes % 2 == 0, "fragments of boxes take turns in two buffers");

using Ring = CopyRing<kMostStages>;

// One thread.
template <int kRowTiles, int kWarps>
__device__ void Fill(const RingCall& call, const Ring& ring) {
  using S = Stage<kRowTiles, kWarps>;
  const int chunks = (call.inner + kChunk - 1) / kChunk;
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const auto copy_w = [&](int output, int chunk, int stage) {
    ArriveExpecting(ring.Full(stage), S::kBytes);
    CopyBoxes(ring.bytes + stage * S::kBytes, call.w, output, chunk * kBoxes, ring.Full(stage),
              for_w);
  };
  const auto copy_x = [&](int chunk, int stage) {
    CopyBoxes(ring.bytes + stage * S::kBytes + S::kXOffset, call.x, 0, chunk * kBoxes,
              ring.Full(stage), for_x);
  };
  int output = static_cast<int>(blockIdx.x) * S::kOutputs;
  const int early = min(call.stages, chunks);
  for (int i = 0; i < early; ++i) copy_w(output, i, i);
  WaitForEarlierKernels();
  for (int i = 0; i < early; ++i) copy_x(i, i);
  // Stages that were never filled count as emptied in the round before.
  RingPlace place = early < call.stages ? RingPlace{early, 1u} : RingPlace{};
  for (int chunk = early; output < call.outputs;
       output += static_cast<int>(gridDim.x) * S::kOutputs, chunk = 0) {
    for (; chunk < chunks; ++chunk, place = place.Next(call.stages)) {
      Wait(ring.Empty(place.stage), place.parity);
      copy_w(output, chunk, place.stage);
      copy_x(chunk, place.stage);
    }
  }
}

template <ProductForm kForm, int kRowTiles, int kWarps>
__device__ void Multiply(const RingCall& call, const Ring& ring) {
  using S = Stage<kRowTiles, kWarps>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = (call.inner + kChunk - 1) / kChunk;
  // Where this lane's row of a matrix load is in a box: 16 outputs and 16 of k, 8 rows and 32 of k.
  const int w_row = warp * 16 + lane % 16, x_row = lane % 8;
  const int w_place = w_row * 128 + (lane / 16 ^ w_row % 8) * 16;
  const int x_place = x_row * 128 + (lane / 8 ^ x_row) * 16 + S::kXOffset;
  // Fragments of a box, and those of the next box, which are on their way in the meantime.
  std::uint32_t a[2][kSteps][4], b[2][kSteps / 2][kRowTiles][4];
  const auto load = [&](const unsigned char* stage, int box, int buffer) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      LoadTiles(a[buffer][i], stage + (w_place ^ i * 32) + box * S::kOutputs * 128);
    }
#pragma unroll
    for (int i = 0; i < kSteps / 2; ++i) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        LoadTiles(b[buffer][i][t], stage + (x_place ^ i * 64) + (box * S::kRows + t * 8) * 128);
      }
    }
  };
  float sums[kRowTiles][4] = {};
  const auto multiply = [&](int buffer) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const std::uint32_t(&two)[4] = b[buffer][step / 2][t];
        Mma(sums[t], a[buffer][step], two[step % 2 * 2], two[step % 2 * 2 + 1], __nv_bfloat16{});
      }
    }
  };
  const auto store = [&](int block) {
    const int n0 = block * S::kOutputs + warp * 16 + lane / 4, r0 = 2 * (lane % 4);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int r = t * 8 + r0 + c % 2, n = n0 + 8 * (c / 2);
        if (r < call.rows && n < call.outputs) {
          StoreSum<kForm>(call.end, static_cast<std::int64_t>(r) * call.out_stride + n, n,
                          sums[t][c]);
        }
        sums[t][c] = 0.0f;
      }
    }
  };

  const int blocks = (call.outputs + S::kOutputs - 1) / S::kOutputs;
  int block = static_cast<int>(blockIdx.x), chunk = 0;
  int left = ((blocks - 1 - block) / static_cast<int>(gridDim.x) + 1) * chunks;
  RingPlace place;
  Wait(ring.Full(0), 0);
  load(ring.bytes, 0, 0);
#pragma unroll 1
  for (; left > 0; --left) {
    const unsigned char* stage = ring.bytes + place.stage * S::kBytes;
    const RingPlace next = place.Next(call.stages);
#pragma unroll
    for (int box = 0; box + 1 < kBoxes; ++box) {
      load(stage, box + 1, (box + 1) % 2);
      multiply(box % 2);
    }
    if (left > 1) {
      Wait(ring.Full(next.stage), next.parity);
      load(ring.bytes + next.stage * S::kBytes, 0, 0);
    }
    multiply((kBoxes - 1) % 2);
    __syncwarp();
    if (lane == 0) Arrive(ring.Empty(place.stage));
    place = next;
    if (++chunk < chunks) continue;
    store(block);
    block += static_cast<int>(gridDim.x);
    chunk = 0;
  }
}

#endif  // BANYAN_SM90A

// A block takes 16 outputs a warp, then those of the block that is a grid further on.
template <ProductForm kForm, int kRowTiles, int kWarps>
__global__ void __launch_bounds__((kWarps + 1) * 32, 1)
    RingKernel(const __grid_constant__ RingCall call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t barriers[2 * kMostStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + (1024 - SharedAddress(unaligned) % 1024) % 1024, barriers};
  LetNextKernelStart();
  if (threadIdx.x == kWarps * 32) {
    FetchMap(call.w);
    FetchMap(call.x);
    for (int stage = 0; stage < call.stages; ++stage) {
      InitBarrier(ring.Full(stage), 1);
      InitBarrier(ring.Empty(stage), kWarps);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (threadIdx.x == kWarps * 32) {
    Fill<kRowTiles, kWarps>(call, ring);
  } else if (threadIdx.x < kWarps * 32) {
    WaitForEarlierKernels();
    Multiply<kForm, kRowTiles, kWarps>(call, ring);
  }
#endif
}

// As few outputs as can be for the busiest multiprocessor, then as many warps.
int WarpsFor(std::int64_t outputs) {
  const int tiles = static_cast<int>((outputs + 15) / 16);
  int best = 1, least = tiles + kMostWarps;
  for (int warps = 1; warps <= kMostWarps; ++warps) {
    const int across = warps * Multiprocessors();
    const int busiest = (tiles + across - 1) / across * warps;
    if (busiest > least) continue;
    best = warps;
    least = busiest;
  }
  return best;
}

template <ProductForm kForm, int kRowTiles, int kWarps>
void Launch(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  using S = Stage<kRowTiles, kWarps>;
  constexpr int kAlignment = 1024;
  // A stage is given back after the first loads from the next one.
  static_assert((kHalfRing - kAlignment) / S::kBytes >= 2);
  const auto kernel = RingKernel<kForm, kRowTiles, kWarps>;
  static const bool ready = [kernel] {
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostRing),
          "shared memory of few rows");
    return true;
  }();
  static_cast<void>(ready);
  const ProductShape& shape = operands.shape;
  RingCall call{};
  call.w = MapOfMatrix(operands.w, shape.outputs, shape.inner, S::kOutputs, kBoxes);
  call.x = MapOfMatrix(operands.x, shape.rows, shape.inner, S::kRows, kBoxes);
  call.end = {operands.out, operands.bias};
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(shape.outputs);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  const int ring_bytes = (ring == RingSize::kHalf ? kHalfRing : kMostRing) - kAlignment;
  call.stages = std::min(kMostStages, ring_bytes / S::kBytes);
  const int blocks = (call.outputs + S::kOutputs - 1) / S::kOutputs;
  const LaunchShape launch{dim3(static_cast<unsigned>(std::min(blocks, Multiprocessors()))),
                           (kWarps + 1) * 32,
                           static_cast<size_t>(call.stages * S::kBytes + kAlignment)};
  LaunchEarly(stream, launch, "product of few rows", kernel, call);
}

template <ProductForm kForm, int kRowTiles>
void LaunchFor(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  switch (WarpsFor(operands.shape.outputs)) {
    case 1:
      return Launch<kForm, kRowTiles, 1>(stream, operands, ring);
    case 2:
      return Launch<kForm, kRowTiles, 2>(stream, operands, ring);
    case 3:
      return Launch<kForm, kRowTiles, 3>(stream, operands, ring);
    default:
      return Launch<kForm, kRowTiles, kMostWarps>(stream, operands, ring);
  }
}

template <ProductForm kForm>
void LaunchFor(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  if (operands.shape.rows <= 8) {
    LaunchFor<kForm, 1>(stream, operands, ring);
  } else {
    LaunchFor<kForm, 2>(stream, operands, ring);
  }
}

}  // namespace

bool FewRowsCanServe(const ProductShape& shape) {
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    const auto kernel = RingKernel<ProductForm::kFloat32, 1, 1>;
    return major == 9 && StartsEarly(reinterpret_cast<const void*>(kernel)) && HasTensorMaps();
  }();
  return hopper && shape.rows >= 1 && shape.rows <= kMostFewRows && shape.inner % kBoxColumns == 0;
}

void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, RingSize ring) {
  switch (operands.form) {
    case ProductForm::kFloat32:
      return LaunchFor<ProductForm::kFloat32>(stream, operands, ring);
    case ProductForm::kAdd:
      return LaunchFor<ProductForm::kAdd>(stream, operands, ring);
    case ProductForm::kBias:
      return LaunchFor<ProductForm::kBias>(stream, operands, ring);
    case ProductForm::kBf16:
      return LaunchFor<ProductForm::kBf16>(stream, operands, ring);
    case ProductForm::kSwiGlu:
      return Check(cudaErrorNotSupported, "SwiGLU of few rows in one step (see GateAndUp)");
  }
}

}  // namespace banyan::cuda
