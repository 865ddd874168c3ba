// Types whose codes are numbers. Bit fields are drawn most significant bit first.
#include "tensor/block_codes.h"

#include <array>
#include <cstring>

namespace banyan {
namespace {

// The halves of 16 bytes. The copies have no other name, so that the bytes go together.
void SplitNibbles(BlockBytes p, std::int8_t* low, std::int8_t* high) {
  std::array<std::uint8_t, 16> bytes;
  std::array<std::int8_t, 16> lows, highs;
  std::memcpy(bytes.data(), p, bytes.size());
  for (size_t i = 0; i < 16; ++i) {
    lows[i] = Code(bytes[i] & 15);
    highs[i] = Code(bytes[i] >> 4);
  }
  std::memcpy(low, lows.data(), lows.size());
  std::memcpy(high, highs.data(), highs.size());
}

// half scale, 16 bytes of codes + 8
void DecodeQ4_0(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  SplitNibbles(block + 2, out.codes, out.codes + 16);
  for (int i = 0; i < 32; ++i) out.codes[i] = Code(out.codes[i] - 8);
}

// half scale, half offset, 16 bytes of codes
void DecodeQ4_1(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  out.minima[0] = -HalfAt(block + 2);
  SplitNibbles(block + 4, out.codes, out.codes + 16);
}

// half scale, 32 fifth bits, 16 bytes of codes + 16
void DecodeQ5_0(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  const std::uint32_t high = WordAt(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int fifth = static_cast<int>((high >> i) & 1u) << 4;
    out.codes[i] = Code((Nibble(block + 6, i) | fifth) - 16);
  }
}

// half scale, half offset, 32 fifth bits, 16 bytes of codes
void DecodeQ5_1(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  out.minima[0] = -HalfAt(block + 2);
  const std::uint32_t high = WordAt(block + 4);
  for (int i = 0; i < 32; ++i) {
    const int fifth = static_cast<int>((high >> i) & 1u) << 4;
    out.codes[i] = Code(Nibble(block + 8, i) | fifth);
  }
}

// half scale, 32 signed bytes
void DecodeQ8_0(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  std::memcpy(out.codes, block + 2, 32);
}

// 16 × {4-bit minimum, 4-bit scale}, 64 bytes of codes, half scale, half minimum
void DecodeQ2_K(BlockBytes block, const BlockCodes& out) {
  const float scale = HalfAt(block + 80);
  const float minimum = HalfAt(block + 82);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = scale * static_cast<float>(block[g] & 15);
    out.minima[g] = minimum * static_cast<float>(block[g] >> 4);
  }
  for (int i = 0; i < 256; ++i) out.codes[i] = Code(TwoBits(block + 16, i));
}

// 32 bytes of third bits (bit b of byte j is value 32b + j; clear means -4), 64 bytes of codes,
// 12 bytes of 6-bit scales + 32, half scale
void DecodeQ3_K(BlockBytes block, const BlockCodes& out) {
  const BlockBytes scales = block + 96;
  const float scale = HalfAt(block + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    out.scales[g] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int third = (block[i % 32] >> (i / 32)) & 1;
    out.codes[i] = Code(TwoBits(block + 32, i) - (third == 0 ? 4 : 0));
  }
}

// half scale, half minimum, then 8 six-bit scales s and minima m in 12 bytes:
// bytes 0-3 {s[g+4] bits 5-4, s[g]}, bytes 4-7 {m[g+4] bits 5-4, m[g]}, bytes 8-11 {m[g+4] bits
// 3-0, s[g+4] bits 3-0}
void DecodeScalesAndMinima(BlockBytes block, const BlockCodes& out) {
  const float scale = HalfAt(block);
  const float minimum = HalfAt(block + 2);
  const BlockBytes packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    int s, m;
    if (g < 4) {
      s = packed[g] & 63;
      m = packed[g + 4] & 63;
    } else {
      s = (packed[g + 4] & 15) | ((packed[g - 4] >> 6) << 4);
      m = (packed[g + 4] >> 4) | ((packed[g] >> 6) << 4);
    }
    out.scales[g] = scale * static_cast<float>(s);
    out.minima[g] = minimum * static_cast<float>(m);
  }
}

// 128 bytes hold 256 four-bit codes: per 32 bytes, the low halves and then the high halves.
int GroupNibble(BlockBytes p, int i) {
  const int byte = p[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

// 16 bytes of scales and minima, 128 bytes of codes
void DecodeQ4_K(BlockBytes block, const BlockCodes& out) {
  DecodeScalesAndMinima(block, out);
  for (int part = 0; part < 4; ++part) {  // as GroupNibble has them
    for (int half = 0; half < 32; half += 16) {
      std::int8_t* codes = out.codes + 64 * part + half;
      SplitNibbles(block + 16 + 32 * part + half, codes, codes + 32);
    }
  }
}

// 16 bytes of scales and minima, 32 bytes of fifth bits (bit g of byte j is value 32g + j), 128
// bytes of codes
void DecodeQ5_K(BlockBytes block, const BlockCodes& out) {
  DecodeScalesAndMinima(block, out);
  for (int i = 0; i < 256; ++i) {
    const int fifth = (block[16 + i % 32] >> (i / 32)) & 1;
    out.codes[i] = Code(GroupNibble(block + 48, i) | (fifth << 4));
  }
}

// 128 bytes of low four bits (per 64 bytes: low halves, high halves), 64 bytes of high two bits, 16
// signed scales, half scale; codes + 32
void DecodeQ6_K(BlockBytes block, const BlockCodes& out) {
  const float scale = HalfAt(block + 208);
  for (int g = 0; g < 16; ++g) {
    std::int8_t s;
    std::memcpy(&s, block + 192 + g, 1);
    out.scales[g] = scale * static_cast<float>(s);
  }
  for (int part = 0; part < 8; ++part) {
    const int half = part / 4, quarter = part % 4;
    std::array<std::uint8_t, 32> fours, twos;  // copies, so that the bytes go together
    std::array<std::int8_t, 32> codes;
    std::memcpy(fours.data(), block + 64 * half + 32 * (quarter % 2), fours.size());
    std::memcpy(twos.data(), block + 128 + 32 * half, twos.size());
    const int low_shift = quarter < 2 ? 0 : 4;
    for (size_t i = 0; i < 32; ++i) {
      const int low = (fours[i] >> low_shift) & 15, high = (twos[i] >> (2 * quarter)) & 3;
      codes[i] = Code((low | (high << 4)) - 32);
    }
    std::memcpy(out.codes + 32 * part, codes.data(), codes.size());
  }
}

// float32 scale, 256 signed bytes, then sums of these, which nobody needs
void DecodeQ8_K(BlockBytes block, const BlockCodes& out) {
  float scale;
  std::memcpy(&scale, block, sizeof(scale));
  for (int g = 0; g < 8; ++g) out.scales[g] = scale;
  std::memcpy(out.codes, block + 4, 256);
}

}  // namespace

BlockDecoder NumberDecoderOf(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return DecodeQ4_0;
    case DType::kQ4_1:
      return DecodeQ4_1;
    case DType::kQ5_0:
      return DecodeQ5_0;
    case DType::kQ5_1:
      return DecodeQ5_1;
    case DType::kQ8_0:
      return DecodeQ8_0;
    case DType::kQ2_K:
      return DecodeQ2_K;
    case DType::kQ3_K:
      return DecodeQ3_K;
    case DType::kQ4_K:
      return DecodeQ4_K;
    case DType::kQ5_K:
      return DecodeQ5_K;
    case DType::kQ6_K:
      return DecodeQ6_K;
    case DType::kQ8_K:
      return DecodeQ8_K;
    default:
      return nullptr;
  }
}

}  // namespace banyan
