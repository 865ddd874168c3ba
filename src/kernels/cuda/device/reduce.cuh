// Sums over a warp and a block in one fixed order.
#pragma once

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

}  // namespace banyan::cuda
