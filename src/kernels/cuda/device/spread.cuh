// Heads of a warp, spread (kernels/spread.h) with the bits of the host. Every lane takes part; what
// is spread together lies within the head or beyond it.
#pragma once

#include "kernels/spread.h"

namespace banyan::cuda {

// One step of a value with that of the lane `apart` lanes away.
__device__ inline float SpreadWithLane(float mine, int apart) {
  const float theirs = __shfl_xor_sync(0xffffffffu, mine, apart);
  const bool upper = (static_cast<int>(threadIdx.x) & apart) != 0;
  return upper ? __fsub_rn(theirs, mine) : __fadd_rn(mine, theirs);
}

__device__ inline void SpreadPair(float& low, float& high) {
  const float sum = __fadd_rn(low, high), difference = __fsub_rn(low, high);
  low = sum;
  high = difference;
}

// Values of 128, four neighbours a lane.
__device__ inline void SpreadFours(int width, float (&v)[4]) {
  if (width == 1) return;
  SpreadPair(v[0], v[1]);
  SpreadPair(v[2], v[3]);
  if (width > 2) {
    SpreadPair(v[0], v[2]);
    SpreadPair(v[1], v[3]);
  }
  for (int apart = 1; 4 * apart < width; apart *= 2) {
#pragma unroll
    for (float& x : v) x = SpreadWithLane(x, apart);
  }
  const float factor = SpreadFactor(width);
#pragma unroll
  for (float& x : v) x = __fmul_rn(x, factor);
}

// A head of at most 256 values in shared memory, in place. The warp must be past its writes; it is
// past those of this afterwards.
__device__ inline void SpreadShared(int width, int dim, float* head) {
  constexpr int kEach = 8;
  if (width == 1) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float v[kEach];  // value lane + 32 i
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] = lane + 32 * i < dim ? head[lane + 32 * i] : 0.0f;
  for (int apart = 1; apart < min(width, 32); apart *= 2) {
#pragma unroll
    for (float& x : v) x = SpreadWithLane(x, apart);
  }
  if (width > 32) {
#pragma unroll
    for (int i = 0; i < kEach; i += 2) SpreadPair(v[i], v[i + 1]);
  }
  if (width > 64) {
#pragma unroll
    for (int i = 0; i < kEach; i += 4) {
      SpreadPair(v[i], v[i + 2]);
      SpreadPair(v[i + 1], v[i + 3]);
    }
  }
  const float factor = SpreadFactor(width);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i < dim) head[lane + 32 * i] = __fmul_rn(v[i], factor);
  }
  __syncwarp();
}

}  // namespace banyan::cuda
