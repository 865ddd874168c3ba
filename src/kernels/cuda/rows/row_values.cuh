// Several neighbouring values of a row at once, in float32 whatever the row's type: accesses of up
// to 16 bytes, for rows that start on such a boundary.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

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

}  // namespace banyan::cuda
