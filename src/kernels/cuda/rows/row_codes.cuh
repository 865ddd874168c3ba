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

// CodeOf of a value of a row that is finite, in the lowest byte: adding 1.5 * 2^23 leaves a
// number's nearest integer, ties to even, in the last bits. Conversions would take longer than the
// memory. No code leaves the range: the largest value times the inverse is 127 but for some units
// of 2^-24.
__device__ inline std::uint32_t CodeByte(float value, const CodeScale& scale) {
  return __float_as_uint(__fadd_rn(__fmul_rn(value, scale.inverse), 12582912.0f));
}
// Four codes of such bytes; none where the row has none.
__device__ inline std::uint32_t FourCodes(const std::uint32_t (&bytes)[4], const CodeScale& scale) {
  const std::uint32_t low = __byte_perm(bytes[0], bytes[1], 0x0040);
  const std::uint32_t high = __byte_perm(bytes[2], bytes[3], 0x0040);
  return scale.inverse == 0.0f ? 0u : __byte_perm(low, high, 0x5410);
}

// Eight bf16 values → eight codes.
__device__ inline uint2 CodesOfEight(const uint4& eight, const CodeScale& scale) {
  const auto four = [&](std::uint32_t first, std::uint32_t second) {
    const std::uint32_t bytes[4] = {CodeByte(__uint_as_float(first << 16), scale),
                                    CodeByte(__uint_as_float(first & 0xffff0000u), scale),
                                    CodeByte(__uint_as_float(second << 16), scale),
                                    CodeByte(__uint_as_float(second & 0xffff0000u), scale)};
    return FourCodes(bytes, scale);
  };
  return make_uint2(four(eight.x, eight.y), four(eight.z, eight.w));
}

}  // namespace banyan::cuda
