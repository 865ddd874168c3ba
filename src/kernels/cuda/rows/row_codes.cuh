// Eight values of a row to codes, and the largest magnitude of a row, for kernels with a block a
// row.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/eight_bits.h"

namespace banyan::cuda {

// bf16 magnitudes order like their bits; those that are not finite come last.
__device__ inline std::uint32_t LargestOfPairs(const uint4& eight) {
  const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
  std::uint32_t largest = 0;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    largest = max(largest, max(pairs[p] & 0x7fffu, pairs[p] >> 16 & 0x7fffu));
  }
  return largest;
}

// Over the block, known to every thread. `scratch` has one word per warp; the block must be past
// any earlier use of it. REQUIRES: whole warps, at most 32.
__device__ inline std::uint32_t BlockLargest(std::uint32_t x, std::uint32_t* scratch) {
  x = __reduce_max_sync(0xffffffffu, x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  const std::uint32_t theirs = lane < static_cast<int>(blockDim.x) / 32 ? scratch[lane] : 0u;
  return __reduce_max_sync(0xffffffffu, theirs);
}

// Of the bits of the row's largest magnitude.
__device__ inline CodeScale CodeScaleOfBits(std::uint32_t largest) {
  return CodeScaleOf(__uint_as_float(largest << 16));
}

// Eight bf16 values → eight codes.
__device__ inline uint2 CodesOfEight(const uint4& eight, const CodeScale& scale) {
  const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
  std::uint32_t words[2] = {};
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    const int low = CodeOf(__uint_as_float(pairs[p] << 16), scale);
    const int high = CodeOf(__uint_as_float(pairs[p] & 0xffff0000u), scale);
    const auto both =
        static_cast<std::uint32_t>(low & 0xff) | static_cast<std::uint32_t>(high & 0xff) << 8;
    words[p / 2] |= both << (16 * (p % 2));
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace banyan::cuda
