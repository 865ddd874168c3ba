// Products of many rows (many_rows.h): SwiGLU of the sums that a warpgroup has of a slab, to
// memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/products/many_rows_feed.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda::many_rows {

#ifdef BANYAN_SM90A

// Lane i of four has part i of each of four blocks of 8 columns; afterwards it has all of block i.
__device__ inline void TransposeAmongFour(std::uint32_t (&word)[4]) {
  const unsigned lane = threadIdx.x % 32;
  const auto exchange = [&](int a, int b, int mask) {  // a of the odd lanes for b of the even ones
    const bool odd = (lane & static_cast<unsigned>(mask)) != 0;
    const std::uint32_t got = __shfl_xor_sync(~0u, odd ? word[a] : word[b], mask);
    (odd ? word[a] : word[b]) = got;
  };
  exchange(0, 1, 1);
  exchange(2, 3, 1);
  exchange(0, 2, 2);
  exchange(1, 3, 2);
}

// Two values, rounded.
__device__ inline float2 AsBf16(const float* values) {
  return __bfloat1622float2(__floats2bfloat162_rn(values[0], values[1]));
}

// SwiGLU of a slab's sums to memory; the gate's are the first half. Rows of the warp's lanes are
// lane / 4 and that + 8, from `row` on.
__device__ inline void StoreSlab(const Call& call, const float (&sums)[2 * kPairs / 8][4], int row,
                                 int column) {
  constexpr int kBlocks = kPairs / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + 8 * half;
#pragma unroll
    for (int first = 0; first < kBlocks; first += 4) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 gate = AsBf16(&sums[first + i][2 * half]);
        const float2 up = AsBf16(&sums[kBlocks + first + i][2 * half]);
        const __nv_bfloat162 both =
            __floats2bfloat162_rn(SwiGluOfBf16(gate.x, up.x), SwiGluOfBf16(gate.y, up.y));
        words[i] = reinterpret_cast<const std::uint32_t&>(both);
      }
      TransposeAmongFour(words);
      const int c = column + (first + lane % 4) * 8;
      if (r < call.rows && c < call.outputs) {
        *reinterpret_cast<uint4*>(call.out + static_cast<std::int64_t>(r) * call.out_stride + c) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda::many_rows
