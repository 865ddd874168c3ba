// Each quantised type has one decoder, which writes a block's codes, scales and minima; plain
// values follow from these. Bit fields are drawn most significant bit first.
#include "tensor/dequantize.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "tensor/float16.h"

namespace banyan {
namespace {

constexpr int kMaxBlock = 256;
constexpr int kMaxGroups = 16;  // per block

// Where a decoder writes one block; minima only when the type has them.
struct BlockCodes {
  std::int8_t* codes;  // [block]
  float* scales;       // [block / group]
  float* minima;       // [block / group]
};

using Bytes = const std::uint8_t*;

float HalfAt(Bytes p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return F16ToFloat(bits);
}

std::uint32_t WordAt(Bytes p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

std::int8_t Code(int value) { return static_cast<std::int8_t>(value); }

// 16 bytes hold 32 four-bit codes: low halves are values 0..15, high halves values 16..31.
int Nibble(Bytes p, int i) { return i < 16 ? p[i] & 15 : p[i - 16] >> 4; }

// half scale, 16 bytes of codes + 8
void DecodeQ4_0(Bytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  for (int i = 0; i < 32; ++i) out.codes[i] = Code(Nibble(block + 2, i) - 8);
}

// half scale, half offset, 16 bytes of codes
void DecodeQ4_1(Bytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  out.minima[0] = -HalfAt(block + 2);
  for (int i = 0; i < 32; ++i) out.codes[i] = Code(Nibble(block + 4, i));
}

// half scale, 32 fifth bits, 16 bytes of codes + 16
void DecodeQ5_0(Bytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  const std::uint32_t high = WordAt(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int fifth = static_cast<int>((high >> i) & 1u) << 4;
    out.codes[i] = Code((Nibble(block + 6, i) | fifth) - 16);
  }
}

// half scale, half offset, 32 fifth bits, 16 bytes of codes
void DecodeQ5_1(Bytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  out.minima[0] = -HalfAt(block + 2);
  const std::uint32_t high = WordAt(block + 4);
  for (int i = 0; i < 32; ++i) {
    const int fifth = static_cast<int>((high >> i) & 1u) << 4;
    out.codes[i] = Code(Nibble(block + 8, i) | fifth);
  }
}

// half scale, 32 signed bytes
void DecodeQ8_0(Bytes block, const BlockCodes& out) {
  out.scales[0] = HalfAt(block);
  std::memcpy(out.codes, block + 2, 32);
}

// half scale, 16 bytes of indices into a code book
void DecodeIQ4_NL(Bytes block, const BlockCodes& out) {
  static constexpr std::array<std::int8_t, 16> kBook = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};
  out.scales[0] = HalfAt(block);
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = kBook[static_cast<size_t>(Nibble(block + 2, i))];
  }
}

// 64 bytes hold 256 two-bit codes: half h (32 bytes), then four shifts of those 32 bytes.
int TwoBits(Bytes p, int i) {
  const int half = i / 128, shift = i / 32 % 4, byte = i % 32;
  return (p[half * 32 + byte] >> (2 * shift)) & 3;
}

// 16 × {4-bit minimum, 4-bit scale}, 64 bytes of codes, half scale, half minimum
void DecodeQ2_K(Bytes block, const BlockCodes& out) {
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
void DecodeQ3_K(Bytes block, const BlockCodes& out) {
  const Bytes scales = block + 96;
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
void DecodeScalesAndMinima(Bytes block, const BlockCodes& out) {
  const float scale = HalfAt(block);
  const float minimum = HalfAt(block + 2);
  const Bytes packed = block + 4;
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
int GroupNibble(Bytes p, int i) {
  const int byte = p[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

// 16 bytes of scales and minima, 128 bytes of codes
void DecodeQ4_K(Bytes block, const BlockCodes& out) {
  DecodeScalesAndMinima(block, out);
  for (int i = 0; i < 256; ++i) out.codes[i] = Code(GroupNibble(block + 16, i));
}

// 16 bytes of scales and minima, 32 bytes of fifth bits (bit g of byte j is value 32g + j), 128
// bytes of codes
void DecodeQ5_K(Bytes block, const BlockCodes& out) {
  DecodeScalesAndMinima(block, out);
  for (int i = 0; i < 256; ++i) {
    const int fifth = (block[16 + i % 32] >> (i / 32)) & 1;
    out.codes[i] = Code(GroupNibble(block + 48, i) | (fifth << 4));
  }
}

// 128 bytes of low four bits (per 64 bytes: low halves, high halves), 64 bytes of high two bits, 16
// signed scales, half scale; codes + 32
void DecodeQ6_K(Bytes block, const BlockCodes& out) {
  const float scale = HalfAt(block + 208);
  for (int g = 0; g < 16; ++g) {
    std::int8_t s;
    std::memcpy(&s, block + 192 + g, 1);
    out.scales[g] = scale * static_cast<float>(s);
  }
  for (int i = 0; i < 256; ++i) {
    const int byte = block[i / 128 * 64 + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    out.codes[i] = Code((low | (TwoBits(block + 128, i) << 4)) - 32);
  }
}

using Decoder = void (*)(Bytes, const BlockCodes&);

// Null for plain types.
Decoder DecoderOf(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return nullptr;
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
    case DType::kIQ4_NL:
      return DecodeIQ4_NL;
  }
  return nullptr;
}

void DequantizePlain(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  if (type == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    out[i] = type == DType::kF16 ? F16ToFloat(bits) : BF16ToFloat(bits);
  }
}

}  // namespace

QuantizedForm QuantizedFormOf(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {};
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ4_NL:
      return {32, false};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {32, true};
    case DType::kQ2_K:
      return {16, true};
    case DType::kQ3_K:
    case DType::kQ6_K:
      return {16, false};
  }
  return {};
}

void DequantizeToCodes(DType type, std::span<const std::byte> bytes, std::span<std::int8_t> codes,
                       std::span<float> scales, std::span<float> minima) {
  const Decoder decode = DecoderOf(type);
  const QuantizedForm form = QuantizedFormOf(type);
  BANYAN_CHECK(decode != nullptr);
  BANYAN_CHECK(bytes.size() == RowBytes(type, static_cast<std::int64_t>(codes.size())));
  const size_t groups = codes.size() / static_cast<size_t>(form.group);
  BANYAN_CHECK(scales.size() == groups && (!form.has_min || minima.size() == groups));
  const DTypeTraits& traits = TraitsOf(type);
  const size_t block = static_cast<size_t>(traits.block);
  const size_t groups_per_block = block / static_cast<size_t>(form.group);
  const auto* source = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (size_t b = 0; b < codes.size() / block; ++b) {
    const size_t group = b * groups_per_block;
    decode(source + b * static_cast<size_t>(traits.bytes),
           {codes.data() + b * block, scales.data() + group,
            form.has_min ? minima.data() + group : nullptr});
  }
}

void Dequantize(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  BANYAN_CHECK(bytes.size() == RowBytes(type, static_cast<std::int64_t>(out.size())));
  const Decoder decode = DecoderOf(type);
  if (decode == nullptr) return DequantizePlain(type, bytes, out);
  const QuantizedForm form = QuantizedFormOf(type);
  const DTypeTraits& traits = TraitsOf(type);
  const size_t block = static_cast<size_t>(traits.block);
  const size_t group = static_cast<size_t>(form.group);
  std::array<std::int8_t, kMaxBlock> codes;
  std::array<float, kMaxGroups> scales, minima;
  const auto* source = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (size_t begin = 0; begin < out.size(); begin += block) {
    decode(source, {codes.data(), scales.data(), minima.data()});
    source += traits.bytes;
    for (size_t i = 0; i < block; ++i) {
      const float product = scales[i / group] * static_cast<float>(codes[i]);
      out[begin + i] = form.has_min ? product - minima[i / group] : product;
    }
  }
}

}  // namespace banyan
