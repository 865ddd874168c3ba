// Operations over the lanes of a warp: sums in one fixed order, and Hadamard rotations.
#pragma once

#include "kernels/hadamard.h"

namespace banyan::cuda {

// float or double.
template <typename T>
__device__ inline T WarpSum(T x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// Sum over the block, known to every thread. `scratch` has one float per warp; the block must be
// past any earlier use of it. REQUIRES: whole warps, at most 32.
__device__ inline float BlockSum(float x, float* scratch) {
  x = WarpSum(x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  return WarpSum(lane < static_cast<int>(blockDim.x / 32) ? scratch[lane] : 0.0f);
}

// --- Hadamard rotation (kernels/hadamard.h), with the bits of the host --------------------------
// Every lane takes part. Values that are rotated together all lie
// within the head or all beyond it.

// One step of a value with that of the lane `apart` lanes away.
__device__ inline float HadamardWithLane(float mine, int apart) {
  const float theirs = __shfl_xor_sync(0xffffffffu, mine, apart);
  const bool upper = (static_cast<int>(threadIdx.x) & apart) != 0;
  return upper ? __fsub_rn(theirs, mine) : __fadd_rn(mine, theirs);
}

__device__ inline void HadamardPair(float& low, float& high) {
  const float sum = __fadd_rn(low, high), difference = __fsub_rn(low, high);
  low = sum;
  high = difference;
}

// Values of 128, four neighbours a lane.
__device__ inline void HadamardFours(int width, float (&v)[4]) {
  if (width == 1) return;
  HadamardPair(v[0], v[1]);
  HadamardPair(v[2], v[3]);
  if (width > 2) {
    HadamardPair(v[0], v[2]);
    HadamardPair(v[1], v[3]);
  }
  for (int apart = 1; 4 * apart < width; apart *= 2) {
#pragma unroll
    for (float& x : v) x = HadamardWithLane(x, apart);
  }
  const float factor = HadamardFactor(width);
#pragma unroll
  for (float& x : v) x = __fmul_rn(x, factor);
}

// At most 256 values in shared memory, in place.
__device__ inline void HadamardOf256(int width, int dim, float* head) {
  constexpr int kEach = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float v[kEach];  // value lane + 32 i
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] = lane + 32 * i < dim ? head[lane + 32 * i] : 0.0f;
  for (int apart = 1; apart < min(width, 32); apart *= 2) {
#pragma unroll
    for (float& x : v) x = HadamardWithLane(x, apart);
  }
  if (width > 32) {
#pragma unroll
    for (int i = 0; i < kEach; i += 2) HadamardPair(v[i], v[i + 1]);
  }
  if (width > 64) {
#pragma unroll
    for (int i = 0; i < kEach; i += 4) {
      HadamardPair(v[i], v[i + 2]);
      HadamardPair(v[i + 1], v[i + 3]);
    }
  }
  const float factor = HadamardFactor(width);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i < dim) head[lane + 32 * i] = __fmul_rn(v[i], factor);
  }
}

// A head in shared memory, in place. The warp must be past its writes; it is past those of this
// afterwards.
__device__ inline void HadamardShared(int width, int dim, float* head) {
  if (width == 1) return;
  for (int d = 0; d < dim; d += 256) HadamardOf256(width, min(dim - d, 256), head + d);
  __syncwarp();
}

}  // namespace banyan::cuda
