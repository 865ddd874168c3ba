// Where a 16-bit K or V value lies in its page: tiles of 8 tokens x 8 values (128 bytes), which is
// what the matrix units read at a time. Half of a page after the other, within a half tile by tile:
//   [2 halves of 8 tokens][dim / 8 tiles][8 tokens][8 values]
#pragma once

#include <cstdint>

#include "plan/batch.h"

namespace banyan::cuda {

inline constexpr int kTileBytes = 128;

// In elements; `dim` is the padded head size, `value` an index below it.
__device__ inline int TileOffset(int token, int value, int dim) {
  return ((token / 8) * (dim / 8) + value / 8) * 64 + (token % 8) * 8 + value % 8;
}

// Values beyond this could change the sums of rows that weigh them with zero: see
// attention_mixed.cuh. Half precision holds none but infinities and NaN.
__device__ inline bool Unruly(float value) { return !(fabsf(value) < 0x1p64f); }

// Bytes of one page's keys or values.
template <int Dim>
inline constexpr int kPageBytes = kPageTokens* Dim * 2;

// Of one page's values with the flags that follow them (kv_pages.h).
template <int Dim>
inline constexpr int kFlaggedPageBytes = kPageBytes<Dim> + kPageTokens;

// One token of a page in shared memory becomes zero.
template <int Dim>
__device__ inline void ClearToken(std::byte* page, int token) {
#pragma unroll
  for (int tile = 0; tile < Dim / 8; ++tile) {
    *reinterpret_cast<uint4*>(page + TileOffset(token, tile * 8, Dim) * 2) = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace banyan::cuda
