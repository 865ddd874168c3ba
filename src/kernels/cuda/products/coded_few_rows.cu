// The ring of few_rows.cu with codes: half the bytes for the same values, and as a sum's order is
// free, two chains of matrix instructions a tile. Fragments of codes have the bytes of fragments of
// 16-bit values of half as many columns.
#include <algorithm>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/tensor_copy.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/coded_store.cuh"
#include "kernels/cuda/products/copy_ring.cuh"

namespace banyan::cuda {
namespace coded_few {
namespace {

constexpr int kMostWarps = 4;    // that multiply
constexpr int kMostStages = 32;  // of a ring
constexpr int kHalfRing = 111 << 10, kMostRing = 150 << 10;
constexpr int kAlignment = 1024;

struct RingCall {
  CUtensorMap w, x;  // copies of kBoxes boxes of all outputs of a block, and of all rows
  CodedEnd end;
  int rows, outputs, inner, out_stride;
  int stages;  // of the ring
};

// A stage: kBoxes boxes of w (16 rows a warp), then as many of x (8 rows a tile).
template <int kRowTiles, int kWarps>
struct Stage {
  static constexpr int kBoxes = kRowTiles > 2 ? 2 : 4;  // along k
  static constexpr int kChunk = kBoxes * kCodeBoxColumns;
  static constexpr int kOutputs = kWarps * 16, kRows = kRowTiles * 8;
  static constexpr int kXOffset = kOutputs * kChunk;
  static constexpr int kBytes = kXOffset + kRows * kChunk;
};

#ifdef BANYAN_SM90A

constexpr int kSteps = kCodeBoxColumns / 32;  // of k in a box, each one matrix instruction

using Ring = CopyRing<kMostStages>;

// One thread.
template <int kRowTiles, int kWarps>
__device__ void Fill(const RingCall& call, const Ring& ring) {
  using S = Stage<kRowTiles, kWarps>;
  const int chunks = (call.inner + S::kChunk - 1) / S::kChunk;
  const std::uint64_t for_w = DropFirst(), for_x = DropLast();
  const auto copy_w = [&](int output, int chunk, int stage) {
    ArriveExpecting(ring.Full(stage), S::kBytes);
    CopyBoxes(ring.bytes + stage * S::kBytes, call.w, output, chunk * S::kBoxes, ring.Full(stage),
              for_w);
  };
  const auto copy_x = [&](int chunk, int stage) {
    CopyBoxes(ring.bytes + stage * S::kBytes + S::kXOffset, call.x, 0, chunk * S::kBoxes,
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

// Sum c of row tile t is that of row 8 t + row + c % 2 and output n + 8 (c / 2).
struct EndPlace {
  int n, row;
};
template <int kRowTiles>
struct EndValues {
  float w_scale[2], x_scale[kRowTiles][2];
  float added[kRowTiles][4];  // kAdd: what was there; kBias: the bias
};

template <int kRowTiles>
__device__ void LoadEnds(const RingCall& call, const EndPlace& at, EndValues<kRowTiles>& ends) {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    ends.w_scale[c] = at.n + 8 * c < call.outputs ? call.end.w_scales[at.n + 8 * c] : 0.0f;
  }
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int r = t * 8 + at.row + c;
      ends.x_scale[t][c] = r < call.rows ? call.end.x_scales[r] : 0.0f;
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int r = t * 8 + at.row + c % 2, n = at.n + 8 * (c / 2);
      ends.added[t][c] = 0.0f;
      if (r >= call.rows || n >= call.outputs) continue;
      if (call.end.form == ProductForm::kAdd) {
        ends.added[t][c] = static_cast<const float*>(
            call.end.end.out)[static_cast<std::int64_t>(r) * call.out_stride + n];
      } else if (call.end.form == ProductForm::kBias) {
        ends.added[t][c] = call.end.end.bias[n];
      }
    }
  }
}

// Leaves the sums zero.
template <int kRowTiles>
__device__ void StoreEnds(const RingCall& call, const EndPlace& at,
                          const EndValues<kRowTiles>& ends, std::int32_t (&sums)[2][kRowTiles][4]) {
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const std::int32_t sum = sums[0][t][c] + sums[1][t][c];
      sums[0][t][c] = sums[1][t][c] = 0;
      const int r = t * 8 + at.row + c % 2, n = at.n + 8 * (c / 2);
      if (r >= call.rows || n >= call.outputs) continue;
      float value = SumOfCodes(sum, ends.x_scale[t][c % 2], ends.w_scale[c / 2]);
      const std::int64_t to = static_cast<std::int64_t>(r) * call.out_stride + n;
      if (call.end.form == ProductForm::kBf16) {
        static_cast<__nv_bfloat16*>(call.end.end.out)[to] = __float2bfloat16_rn(value);
        continue;
      }
      if (call.end.form != ProductForm::kFloat32) value = __fadd_rn(value, ends.added[t][c]);
      static_cast<float*>(call.end.end.out)[to] = value;
    }
  }
}

template <int kRowTiles, int kWarps>
__device__ void Multiply(const RingCall& call, const Ring& ring) {
  using S = Stage<kRowTiles, kWarps>;
  static_assert(S::kBoxes % 2 == 0, "fragments of boxes take turns in two buffers");
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = (call.inner + S::kChunk - 1) / S::kChunk;
  // Where this lane's row of a matrix load is in a box: 16 outputs and 32 of k, 8 rows and 64 of k.
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
  std::int32_t sums[2][kRowTiles][4] = {};
  const auto multiply = [&](int buffer) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const std::uint32_t(&two)[4] = b[buffer][step / 2][t];
        MmaCodes(sums[step % 2][t], a[buffer][step], two[step % 2 * 2], two[step % 2 * 2 + 1]);
      }
    }
  };
  // What belongs to a block's sums is loaded before they are made: at the end, one load after
  // another would take longer than the products.
  EndValues<kRowTiles> ends;
  const auto place_of = [&](int block) {
    return EndPlace{block * S::kOutputs + warp * 16 + lane / 4, 2 * (lane % 4)};
  };
  const auto store = [&](int block) { StoreEnds<kRowTiles>(call, place_of(block), ends, sums); };

  const int blocks = (call.outputs + S::kOutputs - 1) / S::kOutputs;
  int block = static_cast<int>(blockIdx.x), chunk = 0;
  int left = ((blocks - 1 - block) / static_cast<int>(gridDim.x) + 1) * chunks;
  RingPlace place;
  LoadEnds<kRowTiles>(call, place_of(block), ends);
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
    store(block);
    block += static_cast<int>(gridDim.x);
    if (block < blocks) LoadEnds<kRowTiles>(call, place_of(block), ends);
    chunk = 0;
  }
}

#endif  // BANYAN_SM90A

// A block takes 16 outputs a warp, then those of the block that is a grid further on.
template <int kRowTiles, int kWarps>
__global__ void __launch_bounds__((kWarps + 1) * 32, 1)
    CodedRingKernel(const __grid_constant__ RingCall call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t barriers[2 * kMostStages];
  extern __shared__ unsigned char unaligned[];
  const Ring ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                  barriers};
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
    Multiply<kRowTiles, kWarps>(call, ring);
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

template <int kRowTiles, int kWarps>
void Launch(cudaStream_t stream, const CodedOperands& operands, RingSize ring) {
  using S = Stage<kRowTiles, kWarps>;
  // A stage is given back after the first loads from the next one.
  static_assert((kHalfRing - kAlignment) / S::kBytes >= 2);
  RaiseSharedMemory<CodedRingKernel<kRowTiles, kWarps>>(kMostRing);
  const ProductShape& shape = operands.shape;
  RingCall call{};
  call.w = MapOfCodes(operands.w, shape.outputs, shape.inner, S::kOutputs, S::kBoxes);
  call.x = MapOfCodes(operands.x, shape.rows, shape.inner, S::kRows, S::kBoxes);
  call.end = EndOf(operands);
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
  LaunchEarly(stream, launch, "product of codes, few rows", CodedRingKernel<kRowTiles, kWarps>,
              call);
}

template <int kRowTiles>
void LaunchFor(cudaStream_t stream, const CodedOperands& operands, RingSize ring) {
  switch (WarpsFor(operands.shape.outputs)) {
    case 1:
      return Launch<kRowTiles, 1>(stream, operands, ring);
    case 2:
      return Launch<kRowTiles, 2>(stream, operands, ring);
    case 3:
      return Launch<kRowTiles, 3>(stream, operands, ring);
    default:
      return Launch<kRowTiles, kMostWarps>(stream, operands, ring);
  }
}

}  // namespace
}  // namespace coded_few

bool CodedFewRowsCanServe(const CodedOperands& operands) {
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    const auto kernel = coded_few::CodedRingKernel<1, 1>;
    return major == 9 && StartsEarly(reinterpret_cast<const void*>(kernel)) && HasTensorMaps();
  }();
  const ProductShape& shape = operands.shape;
  return hopper && operands.form != ProductForm::kSwiGlu && shape.rows >= 1 &&
         shape.rows <= kMostCodedFewRows;
}

void MultiplyCodedFewRows(cudaStream_t stream, const CodedOperands& operands, RingSize ring) {
  using coded_few::LaunchFor;
  if (operands.shape.rows <= 8) return LaunchFor<1>(stream, operands, ring);
  if (operands.shape.rows <= 16) return LaunchFor<2>(stream, operands, ring);
  LaunchFor<4>(stream, operands, ring);
}

}  // namespace banyan::cuda
