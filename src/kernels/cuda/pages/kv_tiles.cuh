// Where a 16-bit K or V value lies in its page: tiles of 8 tokens x 8 values (128 bytes), which is
// what the matrix units read at a time. Half of a page after the other, within a half tile by tile:
//   [2 halves of 8 tokens][dim / 8 tiles][8 tokens][8 values]
// 8-bit codes lie in tiles of as many bytes, 8 tokens x 16 codes:
//   [2 halves of 8 tokens][dim / 16 tiles][8 tokens][16 codes]
// The 16 codes stand so that the four bytes which a lane loads as two 16-bit values are what it
// multiplies as two pairs: 0 1 8 9, 2 3 10 11, 4 5 12 13, 6 7 14 15.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "plan/batch.h"

namespace banyan::cuda {

inline constexpr int kTileBytes = 128;

// In elements; `dim` is the padded head size, `value` an index below it.
__device__ inline int TileOffset(int token, int value, int dim) {
  return ((token / 8) * (dim / 8) + value / 8) * 64 + (token % 8) * 8 + value % 8;
}

// Where the code of a value lies: a byte each.
__device__ inline int CodeOffset(int token, int value, int dim) {
  const int tile = (token / 8) * (dim / 16) + value / 16, v = value % 16;
  return tile * kTileBytes + (token % 8) * 16 + v % 8 / 2 * 4 + v / 8 * 2 + v % 2;
}

// Of four codes two pairs as half precision, which holds them exactly: bytes Low & 3 and Low >> 4,
// and the same of High. (With the sign bit turned a code is code + 128 >= 0: the last byte of a
// number between 1024 and 2047.)
template <int Low0, int Low1, int High0, int High1>
__device__ inline void UnpackCodes(std::uint32_t codes, std::uint32_t& low, std::uint32_t& high) {
  constexpr std::uint32_t kThousand = 0x64646464u;
  const std::uint32_t positive = codes ^ 0x80808080u;
  const std::uint32_t pairs[2] = {__byte_perm(positive, kThousand, 0x4040 | Low1 << 8 | Low0),
                                  __byte_perm(positive, kThousand, 0x4040 | High1 << 8 | High0)};
  const __half2 offset = __float2half2_rn(1024.0f + 128.0f);
  const __half2 low_pair = __hsub2(*reinterpret_cast<const __half2*>(&pairs[0]), offset);
  const __half2 high_pair = __hsub2(*reinterpret_cast<const __half2*>(&pairs[1]), offset);
  low = *reinterpret_cast<const std::uint32_t*>(&low_pair);
  high = *reinterpret_cast<const std::uint32_t*>(&high_pair);
}
// A token's 16 codes: values 0 to 7, and 8 to 15.
__device__ inline void UnpackRow(const uint4& codes, uint4& first, uint4& second) {
  UnpackCodes<0, 1, 2, 3>(codes.x, first.x, second.x);
  UnpackCodes<0, 1, 2, 3>(codes.y, first.y, second.y);
  UnpackCodes<0, 1, 2, 3>(codes.z, first.z, second.z);
  UnpackCodes<0, 1, 2, 3>(codes.w, first.w, second.w);
}

// How pages hold keys and values. Element: what the matrix instruction multiplies. Codes: pages
// hold 8-bit codes with scales, and the element is half precision.
template <typename ElementType, bool Codes>
struct KvKind {
  using Element = ElementType;
  static constexpr bool kInt8 = Codes;
};

// Values beyond this could change the sums of rows that weigh them with zero: see
// attention_blocks.cu. Half precision holds none but infinities and NaN.
__device__ inline bool Unruly(float value) { return !(fabsf(value) < 0x1p64f); }

// Bytes of one page's keys or values.
template <int Dim>
inline constexpr int kPageBytes = kPageTokens* Dim * 2;

// Of one page's values with the flags that follow them (kv_pages.h).
template <int Dim>
inline constexpr int kFlaggedPageBytes = kPageBytes<Dim> + kPageTokens;

// Of one page's codes, and with the scales that follow them.
template <int Dim>
inline constexpr int kCodeBytes = kPageTokens* Dim;
template <int Dim>
inline constexpr int kScaledCodeBytes = kCodeBytes<Dim> + kPageTokens * 4;

// What attention reads of one page's keys, which is also where its values begin, and of its values.
template <typename Kind, int Dim>
inline constexpr int kKeyBytes = Kind::kInt8 ? kScaledCodeBytes<Dim> : kPageBytes<Dim>;
template <typename Kind, int Dim>
inline constexpr int kValueBytes = Kind::kInt8 ? kScaledCodeBytes<Dim> : kFlaggedPageBytes<Dim>;

// One token of a page in shared memory becomes zero.
template <int Dim>
__device__ inline void ClearToken(std::byte* page, int token) {
#pragma unroll
  for (int tile = 0; tile < Dim / 8; ++tile) {
    *reinterpret_cast<uint4*>(page + TileOffset(token, tile * 8, Dim) * 2) = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace banyan::cuda
