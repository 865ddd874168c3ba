// The frame of the kernels for products of few rows on Hopper, whatever the type of the weights:
// these are streamed once, at the speed of memory. Weights and rows of x come through one ring of
// pipeline stages in shared memory, which one thread has the copy engine fill; the other warps
// multiply 16 outputs each.
//
// What the speed needs, on an H200 (132 multiprocessors, 4.8 TB/s, 1 to 2 us from request to data
// under load): 36 bytes a nanosecond for each multiprocessor, so 40 to 70 KB under way in each at
// any time. No output is split over k, and the time of a chain of matrix instructions over all of k
// (33 cycles for 16 of it) must stay below that of the copies: loads from shared memory run a group
// of steps ahead, and one warp does nothing but ask for copies. It asks for the first weights
// before the kernels before it are done.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace banyan::cuda::few_rows {

inline constexpr int kAlignment = 1024;  // of a stage, for boxes

// --- On the device ------------------------------------------------------------------------------
// The place in the ring, for the thread that fills it and for the warps that empty it.
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ RingPlace Next(int stages) const {
    return stage + 1 < stages ? RingPlace{stage + 1, parity} : RingPlace{0, parity ^ 1u};
  }
};

template <int kMostStages>
struct CopyRing {
  unsigned char* bytes;
  std::uint64_t* barriers;  // [2 * kMostStages]

  // A stage's copies have arrived.
  __device__ std::uint64_t& Full(int stage) const { return barriers[stage]; }
  // All warps have read it.
  __device__ std::uint64_t& Empty(int stage) const { return barriers[kMostStages + stage]; }
};

#ifdef BANYAN_SM90A

// Bytes from shared memory at this address to the first that is aligned for a ring.
__device__ inline std::uint32_t GapToRing(const void* shared) {
  return (kAlignment - SharedAddress(shared) % kAlignment) % kAlignment;
}

// What a block multiplies: `width` of `end` outputs, then those a grid further on; the weights of
// each come in `chunks` stages.
struct BlockOutputs {
  const int &width, &end;
  int chunks;
};

// `stages` and the like are references to the kernel's parameters: these are read from constant
// memory where they are needed, and take no registers.

// By one thread. copy_w(output, chunk, stage) announces the bytes of a whole stage at its barrier
// and copies its weights; copy_x(chunk, stage) copies its rows. Weights are constants: those of the
// first stages are copied before earlier kernels end.
template <typename Ring, typename CopyW, typename CopyX>
__device__ inline void FillRing(const Ring& ring, const int& stages, const BlockOutputs& outputs,
                                const CopyW& copy_w, const CopyX& copy_x) {
  int output = static_cast<int>(blockIdx.x) * outputs.width;
  const int early = min(stages, outputs.chunks);
  for (int i = 0; i < early; ++i) copy_w(output, i, i);
  WaitForEarlierKernels();
  for (int i = 0; i < early; ++i) copy_x(i, i);
  // Stages that were never filled count as emptied in the round before.
  RingPlace place = early < stages ? RingPlace{early, 1u} : RingPlace{};
  for (int chunk = early; output < outputs.end;
       output += static_cast<int>(gridDim.x) * outputs.width, chunk = 0) {
    for (; chunk < outputs.chunks; ++chunk, place = place.Next(stages)) {
      Wait(ring.Empty(place.stage), place.parity);
      copy_w(output, chunk, place.stage);
      copy_x(chunk, place.stage);
    }
  }
}

// The body of a kernel of `warps` warps that multiply and one that fills. prefetch(), fill() and
// multiply() are those of the element type.
template <typename Ring, typename Prefetch, typename Fill, typename Multiply>
__device__ inline void RunRing(const Ring& ring, const int& stages, const int& warps,
                               const Prefetch& prefetch, const Fill& fill,
                               const Multiply& multiply) {
  LetNextKernelStart();
  const unsigned filler = static_cast<unsigned>(warps) * 32;
  if (threadIdx.x == filler) {
    prefetch();
    for (int stage = 0; stage < stages; ++stage) {
      InitBarrier(ring.Full(stage), 1);
      InitBarrier(ring.Empty(stage), warps);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (threadIdx.x == filler) {
    fill();
  } else if (threadIdx.x < filler) {
    WaitForEarlierKernels();
    multiply();
  }
}

#endif  // BANYAN_SM90A

// --- On the host --------------------------------------------------------------------------------
// Warps of a block, at most `most`, for so many tiles of 16 outputs: as few outputs as can be for
// the busiest multiprocessor, then as many warps.
inline int WarpsFor(int tiles, int most) {
  int best = 1, least = tiles + most;
  for (int warps = 1; warps <= most; ++warps) {
    const int across = warps * Multiprocessors();
    const int busiest = (tiles + across - 1) / across * warps;
    if (busiest > least) continue;
    best = warps;
    least = busiest;
  }
  return best;
}

// `blocks`: of outputs. A block of threads takes several where there are more than multiprocessors.
inline LaunchShape ShapeOf(int blocks, int warps, int stages, int stage_bytes) {
  return {dim3(static_cast<unsigned>(std::min(blocks, Multiprocessors()))), (warps + 1) * 32,
          static_cast<std::size_t>(stages * stage_bytes + kAlignment)};
}

}  // namespace banyan::cuda::few_rows
