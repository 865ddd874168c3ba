// Types whose codes name entries of a book: the IQ types, ternary ones, and four-bit floats.
#include <array>
#include <bit>

#include "tensor/block_codes.h"
#include "tensor/codebook_grids.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

constexpr std::array<std::int8_t, 16> kBookIQ4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};
// Four-bit floats {sign, 2 bits of exponent, 1 of mantissa}, times two.
constexpr std::array<std::int8_t, 16> kBookFP4 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                  0, -1, -2, -3, -4, -6, -8, -12};

// Eight values of a book, bit i of `signs` set where value i is negative.
void PutSigned(const std::int8_t* values, unsigned signs, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = Code((signs >> i & 1) != 0 ? -values[i] : values[i]);
}

// Two points of four values each.
void PutSignedPair(const std::int8_t* first, const std::int8_t* second, unsigned signs,
                   std::int8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    codes[i] = Code((signs >> i & 1) != 0 ? -first[i] : first[i]);
    codes[4 + i] = Code((signs >> (4 + i) & 1) != 0 ? -second[i] : second[i]);
  }
}

// Seven signs; the eighth makes the number of negative ones even.
unsigned EvenSigns(unsigned seven) {
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1) << 7;
}

// Group g of a list of four-bit numbers, low half first.
int HalfByte(BlockBytes p, int g) { return (p[g / 2] >> (4 * (g % 2))) & 15; }

// half scale, 16 bytes of indices
void DecodeIQ4_NL(BlockBytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = kBookIQ4[static_cast<size_t>(Nibble(block + 2, i))];
  }
}

// half scale, 8 × 2 high bits and 8 × 4 low bits of scales + 32, 8 × 16 bytes of indices
void DecodeIQ4_XS(BlockBytes block, const BlockCodes& out) {
  const float scale = HalfAt(block);
  const int high = PairAt(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int s = HalfByte(block + 4, g) | ((high >> (2 * g)) & 3) << 4;
    out.scales[g] = scale * static_cast<float>(s - 32);
    for (int i = 0; i < 32; ++i) {
      out.codes[32 * g + i] = kBookIQ4[static_cast<size_t>(Nibble(block + 8 + 16 * g, i))];
    }
  }
}

// half scale, then per 32 values: four 8-bit points, {4-bit scale, 4 × 7 signs}
void DecodeIQ2_XXS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_XXS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const BlockBytes points = block + 2 + 8 * g;
    const std::uint32_t word = WordAt(points + 4);
    out.scales[g] = scale * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      PutSigned(grid + 8 * points[k], EvenSigns((word >> (7 * k)) & 127),
                out.codes + 32 * g + 8 * k);
    }
  }
}

// half scale, 32 × {7 signs, 9-bit point}, 16 four-bit scales
void DecodeIQ2_XS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_XS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = scale * (0.5f + static_cast<float>(HalfByte(block + 66, g))) * 0.25f;
  }
  for (int k = 0; k < 32; ++k) {
    const unsigned pair = PairAt(block + 2 + 2 * k);
    PutSigned(grid + 8 * (pair & 511), EvenSigns(pair >> 9), out.codes + 8 * k);
  }
}

// half scale, 32 low bytes of points, 32 bytes of signs, 32 × 2 high bits of points, 16 four-bit
// scales
void DecodeIQ2_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ2_S();
  const float scale = HalfAt(block);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = scale * (0.5f + static_cast<float>(HalfByte(block + 74, g))) * 0.25f;
  }
  for (int k = 0; k < 32; ++k) {
    const int point = block[2 + k] | ((block[66 + k / 4] >> (2 * (k % 4))) & 3) << 8;
    PutSigned(grid + 8 * point, block[34 + k], out.codes + 8 * k);
  }
}

// half scale, 64 points of four values, then per 32 values {4-bit scale, 4 × 7 signs}
void DecodeIQ3_XXS(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ3_XXS();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const std::uint32_t word = WordAt(block + 66 + 4 * g);
    out.scales[g] = scale * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int k = 0; k < 4; ++k) {
      const BlockBytes points = block + 2 + 8 * g + 2 * k;
      PutSignedPair(grid + 4 * points[0], grid + 4 * points[1], EvenSigns((word >> (7 * k)) & 127),
                    out.codes + 32 * g + 8 * k);
    }
  }
}

// half scale, 64 low bytes of points, 64 high bits of points, 32 bytes of signs, 8 four-bit scales
void DecodeIQ3_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ3_S();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    out.scales[g] = scale * static_cast<float>(1 + 2 * HalfByte(block + 106, g));
  }
  const auto point = [&](int p) {
    return grid + 4 * (block[2 + p] | ((block[66 + p / 8] >> (p % 8)) & 1) << 8);
  };
  for (int k = 0; k < 32; ++k) {
    PutSignedPair(point(2 * k), point(2 * k + 1), block[74 + k], out.codes + 8 * k);
  }
}

// Of IQ1: a point plus or minus an eighth, in eighths.
void PutEighths(const std::int8_t* values, bool below, std::int8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = Code(8 * values[i] + (below ? -1 : 1));
}

// half scale, 32 low bytes of points, then per 32 values {minus an eighth, 3-bit scale, 4 × 3 high
// bits of points}
void DecodeIQ1_S(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ1();
  const float scale = HalfAt(block);
  for (int g = 0; g < 8; ++g) {
    const int pair = PairAt(block + 34 + 2 * g);
    out.scales[g] = scale * static_cast<float>(2 * ((pair >> 12) & 7) + 1) * 0.125f;
    for (int k = 0; k < 4; ++k) {
      const int point = block[2 + 4 * g + k] | ((pair >> (3 * k)) & 7) << 8;
      PutEighths(grid + 8 * point, (pair & 0x8000) != 0, out.codes + 32 * g + 8 * k);
    }
  }
}

// 32 low bytes of points, 32 × {minus an eighth, 3 high bits of a point}, 4 × {a quarter of the
// half scale, lowest first, 4 × 3-bit scale}
void DecodeIQ1_M(BlockBytes block, const BlockCodes& out) {
  const std::int8_t* grid = GridOfIQ1();
  const BlockBytes scales = block + 48;
  unsigned half = 0;
  for (int i = 0; i < 4; ++i) half |= static_cast<unsigned>(PairAt(scales + 2 * i) >> 12) << 4 * i;
  const float scale = F16ToFloat(static_cast<std::uint16_t>(half));
  for (int g = 0; g < 16; ++g) {
    const int s = (PairAt(scales + 2 * (g / 4)) >> (3 * (g % 4))) & 7;
    out.scales[g] = scale * static_cast<float>(2 * s + 1) * 0.125f;
  }
  for (int k = 0; k < 32; ++k) {
    const int high = HalfByte(block + 32, k);
    PutEighths(grid + 8 * (block[k] | (high & 7) << 8), (high & 8) != 0, out.codes + 8 * k);
  }
}

// Digit `power` places below the first of a byte that holds up to five ternary digits as a fraction
// of 256, minus one.
std::int8_t Trit(std::uint8_t byte, int power) {
  constexpr std::array<int, 5> kPowers = {1, 3, 9, 27, 81};
  const int rest = (byte * kPowers[static_cast<size_t>(power)]) & 255;
  return Code(((rest * 3) >> 8) - 1);
}

// 32 bytes of five digits each (digit d of byte j is value 32 d + j), 16 bytes of five, 4 bytes of
// four, half scale
void DecodeTQ1_0(BlockBytes block, const BlockCodes& out) {
  for (int g = 0; g < 8; ++g) out.scales[g] = HalfAt(block + 52);
  for (int i = 0; i < 160; ++i) out.codes[i] = Trit(block[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out.codes[160 + i] = Trit(block[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out.codes[240 + i] = Trit(block[48 + i % 4], i / 4);
}

// 64 bytes of codes + 1, half scale
void DecodeTQ2_0(BlockBytes block, const BlockCodes& out) {
  for (int g = 0; g < 8; ++g) out.scales[g] = HalfAt(block + 64);
  for (int i = 0; i < 256; ++i) out.codes[i] = Code(TwoBits(block, i) - 1);
}

// exponent + 127, 16 bytes of four-bit floats
void DecodeMXFP4(BlockBytes block, const BlockCodes& out) {
  // Half of 2^(exponent): the book has doubles. The two smallest are subnormal.
  const std::uint32_t exponent = block[0];
  out.scales[0] =
      std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = kBookFP4[static_cast<size_t>(Nibble(block + 1, i))];
  }
}

}  // namespace

std::span<const std::int8_t> CodeBookOf(DType type) {
  switch (type) {
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return kBookIQ4;
    case DType::kMXFP4:
      return kBookFP4;
    default:
      return {};
  }
}

BlockDecoder BookDecoderOf(DType type) {
  switch (type) {
    case DType::kIQ1_S:
      return DecodeIQ1_S;
    case DType::kIQ1_M:
      return DecodeIQ1_M;
    case DType::kIQ2_XXS:
      return DecodeIQ2_XXS;
    case DType::kIQ2_XS:
      return DecodeIQ2_XS;
    case DType::kIQ2_S:
      return DecodeIQ2_S;
    case DType::kIQ3_XXS:
      return DecodeIQ3_XXS;
    case DType::kIQ3_S:
      return DecodeIQ3_S;
    case DType::kIQ4_NL:
      return DecodeIQ4_NL;
    case DType::kIQ4_XS:
      return DecodeIQ4_XS;
    case DType::kTQ1_0:
      return DecodeTQ1_0;
    case DType::kTQ2_0:
      return DecodeTQ2_0;
    case DType::kMXFP4:
      return DecodeMXFP4;
    default:
      return nullptr;
  }
}

}  // namespace banyan
