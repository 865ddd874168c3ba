// How one stored block becomes codes, scales and minima. The decoders are in block_codes.cc (codes
// that are the numbers themselves) and codebook_blocks.cc (codes that name entries of a book).
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/host_tensor.h"
#include "tensor/narrow_floats.h"

namespace banyan {

inline constexpr int kMaxBlock = 256;
inline constexpr int kMaxGroups = 16;  // per block

// Where a decoder writes one block; minima only when the type has them.
struct BlockCodes {
  std::int8_t* codes;  // [block]
  float* scales;       // [block / group]
  float* minima;       // [block / group]
};

using BlockBytes = const std::uint8_t*;
using BlockDecoder = void (*)(BlockBytes, const BlockCodes&);

// Null for types that the file does not have.
BlockDecoder NumberDecoderOf(DType type);
BlockDecoder BookDecoderOf(DType type);

inline float HalfAt(BlockBytes p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return F16ToFloat(bits);
}

inline std::uint16_t PairAt(BlockBytes p) { return static_cast<std::uint16_t>(p[0] | (p[1] << 8)); }

inline std::uint32_t WordAt(BlockBytes p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

inline std::int8_t Code(int value) { return static_cast<std::int8_t>(value); }

// 16 bytes hold 32 four-bit codes: low halves are values 0..15, high halves values 16..31.
inline int Nibble(BlockBytes p, int i) { return i < 16 ? p[i] & 15 : p[i - 16] >> 4; }

// 64 bytes hold 256 two-bit codes: half h (32 bytes), then four shifts of those 32 bytes.
inline int TwoBits(BlockBytes p, int i) {
  const int half = i / 128, shift = i / 32 % 4, byte = i % 32;
  return (p[half * 32 + byte] >> (2 * shift)) & 3;
}

}  // namespace banyan
