// Values of a row in registers: several neighbours at once, in float32 whatever the row's type, by
// accesses of up to 16 bytes (rows start on such a boundary); and their int8 codes.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/int8.h"

namespace banyan::cuda {

template <int kCount>
struct Values {
  float v[kCount];
};

template <int kCount>
__device__ Values<kCount> Load(const float* from) {
  Values<kCount> out;
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      out.v[i] = four.x, out.v[i + 1] = four.y, out.v[i + 2] = four.z, out.v[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out.v[i] = from[i];
  }
  return out;
}

template <int kCount>
__device__ Values<kCount> Load(const __nv_bfloat16* from) {
  Values<kCount> out;
  if constexpr (kCount % 8 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      const uint4 eight = *reinterpret_cast<const uint4*>(from + i);
      const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        out.v[i + 2 * p] = __uint_as_float(pairs[p] << 16);
        out.v[i + 2 * p + 1] = __uint_as_float(pairs[p] & 0xffff0000u);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out.v[i] = __bfloat162float(from[i]);
  }
  return out;
}

template <int kCount>
__device__ void Store(float* to, const Values<kCount>& x) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(x.v[i], x.v[i + 1], x.v[i + 2], x.v[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = x.v[i];
  }
}

template <int kCount>
__device__ void Store(__nv_bfloat16* to, const Values<kCount>& x) {
  if constexpr (kCount % 4 == 0) {
    std::uint32_t pairs[kCount / 2];
#pragma unroll
    for (int p = 0; p < kCount / 2; ++p) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(x.v[2 * p], x.v[2 * p + 1]);
      pairs[p] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    if constexpr (kCount % 8 == 0) {
#pragma unroll
      for (int p = 0; p < kCount / 2; p += 4) {
        *reinterpret_cast<uint4*>(to + 2 * p) =
            make_uint4(pairs[p], pairs[p + 1], pairs[p + 2], pairs[p + 3]);
      }
    } else {
#pragma unroll
      for (int p = 0; p < kCount / 2; p += 2) {
        *reinterpret_cast<uint2*>(to + 2 * p) = make_uint2(pairs[p], pairs[p + 1]);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = __float2bfloat16_rn(x.v[i]);
  }
}

// --- Values to int8 codes -----------------------------------------------------------------------
// For kernels with a
// block a row: eight values to codes, and the largest magnitude of a row.

// Magnitudes order like these bits; those that are not finite come last.
__device__ inline std::uint32_t MagnitudeBits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// Eight bf16 values as they are stored.
__device__ inline void FloatsOfEight(const uint4& eight, float (&v)[8]) {
  const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    v[2 * p] = __uint_as_float(pairs[p] << 16);
    v[2 * p + 1] = __uint_as_float(pairs[p] & 0xffff0000u);
  }
}

// HadamardRow of int8.h for values of a warp, kEach neighbours a lane. Every lane takes part;
// values that are rotated together all lie within the row or all beyond it.
//
// Lanes that are `apart` from each other exchange half of their values: the lower one gets the even
// values of both, the upper one the odd ones, so that sums and differences are a lane's own and
// half as many values travel as if each lane had to see all of the other's. Values do not return:
// their codes do, four in a word (ReturnCodes).
template <int kEach, int kWidth>
__device__ inline void HadamardInWarp(float (&v)[kEach]) {
  const auto add_pairs = [&](int apart) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if ((i & apart) != 0) continue;
      const float low = v[i], high = v[i + apart];
      v[i] = __fadd_rn(low, high);
      v[i + apart] = __fsub_rn(low, high);
    }
  };
#pragma unroll
  for (int apart = 1; apart < kEach; apart *= 2) add_pairs(apart);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int apart = 1; apart * kEach < kWidth; apart *= 2) {
    const bool upper = (lane & apart) != 0;
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const float theirs = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + 1], apart);
      v[i] = upper ? theirs : v[i];
      v[i + 1] = upper ? v[i + 1] : theirs;
    }
    add_pairs(1);
  }
  const float factor = HadamardFactor(kWidth);
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] = __fmul_rn(v[i], factor);
}
// One width for the whole block: with the usual one, nothing is left to decide in the steps.
template <int kEach>
__device__ inline void HadamardInWarp(int width, float (&v)[kEach]) {
  if (width == 128) {
    HadamardInWarp<kEach, 128>(v);
  } else if (width == 64) {
    HadamardInWarp<kEach, 64>(v);
  }
}

// Codes of a lane's even and odd values after HadamardInWarp to the lanes that their columns belong
// to: what was exchanged last returns first.
template <int kEach, int kWidth>
__device__ inline void ReturnCodes(std::uint32_t& even, std::uint32_t& odd) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int apart = kWidth / 2 / kEach; apart > 0; apart /= 2) {
    const bool upper = (lane & apart) != 0;
    const std::uint32_t theirs = __shfl_xor_sync(0xffffffffu, upper ? even : odd, apart);
    even = upper ? theirs : even;
    odd = upper ? odd : theirs;
  }
}
template <int kEach>
__device__ inline void ReturnCodes(int width, std::uint32_t& even, std::uint32_t& odd) {
  if (width == 128) {
    ReturnCodes<kEach, 128>(even, odd);
  } else if (width == 64) {
    ReturnCodes<kEach, 64>(even, odd);
  }
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
__device__ inline Int8Scale Int8ScaleOfBits(std::uint32_t largest) {
  return Int8ScaleOf(__uint_as_float(largest));
}

// QuantizeInt8 of a value of a row that is finite, in the lowest byte: adding 1.5 * 2^23 leaves a
// number's nearest integer, ties to even, in the last bits. Conversions would take longer than the
// memory. No code leaves the range: the largest value times the inverse is 127 but for some units
// of 2^-24.
__device__ inline std::uint32_t CodeByte(float value, const Int8Scale& scale) {
  return __float_as_uint(__fadd_rn(__fmul_rn(value, scale.inverse), 12582912.0f));
}
// Four codes of such bytes; none where the row has none.
__device__ inline std::uint32_t FourCodes(const std::uint32_t (&bytes)[4], const Int8Scale& scale) {
  const std::uint32_t low = __byte_perm(bytes[0], bytes[1], 0x0040);
  const std::uint32_t high = __byte_perm(bytes[2], bytes[3], 0x0040);
  return scale.inverse == 0.0f ? 0u : __byte_perm(low, high, 0x5410);
}

// Eight values of a lane after HadamardInWarp → the codes of its eight columns. Every lane takes
// part.
__device__ inline uint2 CodesOfEight(const float (&v)[8], int width, const Int8Scale& scale) {
  const auto four = [&](int first) {
    const std::uint32_t bytes[4] = {CodeByte(v[first], scale), CodeByte(v[first + 2], scale),
                                    CodeByte(v[first + 4], scale), CodeByte(v[first + 6], scale)};
    return FourCodes(bytes, scale);
  };
  std::uint32_t even = four(0), odd = four(1);
  ReturnCodes<8>(width, even, odd);
  return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// The same of four; two vectors of a thread at a time, so that words are full.
__device__ inline uint2 CodesOfFours(const float (&v)[4], const float (&w)[4], int width,
                                     const Int8Scale& scale) {
  const auto four = [&](int first) {
    const std::uint32_t bytes[4] = {CodeByte(v[first], scale), CodeByte(v[first + 2], scale),
                                    CodeByte(w[first], scale), CodeByte(w[first + 2], scale)};
    return FourCodes(bytes, scale);
  };
  std::uint32_t even = four(0), odd = four(1);
  ReturnCodes<4>(width, even, odd);
  return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

}  // namespace banyan::cuda
