// Codes and scales of quantised tiles on the device, and of the file formats' blocks that they are
// made of. Values are computed as tensor/quantization.cc does, operation by operation, and rounded
// to bf16 once.
//
// Lane 4 g + t of a warp holds, of each 16 columns (a step), rows g and g + 8 at columns 2t, 2t +
// 1, 2t + 8 and 2t + 9: eight codes, in the order of the registers of the matrix instruction:
//
//   place   0      1         2          3             4         5         6             7
//   row     g      g         g + 8      g + 8         g         g         g + 8         g + 8
//   column  2t     2t + 1    2t         2t + 1        2t + 8    2t + 9    2t + 8        2t + 9
//
// as bytes (two words a step) or as four bits (one word, place 0 lowest). Codes of five bits have
// the fifth in their record: bit 8 step + place of the lane's word.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/weights/quantised_matrix.h"

namespace banyan::cuda {

// Where a weight lies in its tile.
struct TilePlace {
  int lane, step, place;
  __device__ TilePlace(int row, int column) {  // within the tile
    lane = row % 8 * 4 + column % 8 / 2;
    step = column / 16;
    place = column % 16 / 8 * 4 + row / 8 * 2 + column % 2;
  }
};
__device__ inline int RowOf(int lane, int place) { return lane / 4 + place / 2 % 2 * 8; }
__device__ inline int ColumnOf(int lane, int step, int place) {
  return step * 16 + place / 4 * 8 + lane % 4 * 2 + place % 2;
}

// Small integers as floats without a conversion instruction: 2^23 + n is n in the lowest bits.
__device__ inline float FloatOfByte(std::uint32_t word, int place) {  // signed
  const std::uint32_t bits =
      __byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7440u | static_cast<std::uint32_t>(place));
  return __uint_as_float(bits) - 8388736.0f;
}
__device__ inline float FloatOfNibble(std::uint32_t word, int place, int zero) {
  return __uint_as_float(((word >> (4 * place)) & 15u) | 0x4b000000u) -
         (8388608.0f + static_cast<float>(zero));
}

__device__ inline float FloatOfUnsigned(std::uint32_t word, int place) {  // a byte
  const std::uint32_t bits =
      __byte_perm(word, 0x4b000000u, 0x7440u | static_cast<std::uint32_t>(place));
  return __uint_as_float(bits) - 8388608.0f;
}

// Two halves. Records are aligned to their size, up to 16 bytes.
__device__ inline float2 HalvesOf(std::uint32_t word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
template <typename Word>
__device__ inline Word RecordAt(const std::uint8_t* record) {
  return *reinterpret_cast<const Word*>(record);
}
// Blocks of the file formats have no alignment.
__device__ inline float HalfOfBytes(const std::uint8_t* p) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(p[0] | (p[1] << 8))));
}

// Scales and minima of a lane's two rows at one step.
struct PairScales {
  float scale[2], minimum[2];
};

// The six-bit scale and minimum of group g of a Q4_K block, packed in 12 bytes (dequantize.cc).
struct SixBits {
  int scale, minimum;
  __device__ SixBits(const std::uint8_t* packed, int g) {
    if (g < 4) {
      scale = packed[g] & 63;
      minimum = packed[g + 4] & 63;
    } else {
      scale = (packed[g + 4] & 15) | ((packed[g - 4] >> 6) << 4);
      minimum = (packed[g + 4] >> 4) | ((packed[g] >> 6) << 4);
    }
  }
};

// What each form is. Scales and Value speak of tiles; Code (as the tile stores it), Stored (the
// value) and PackRecord read a row of the file's blocks, of which there are `blocks`.
template <QuantisedForm kForm>
struct Form;

template <>
struct Form<QuantisedForm::kQ8_0> {
  static constexpr int kBits = 8, kRecordBytes = 4, kBlock = 32, kBlockBytes = 34;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = false;
  // {half scale of row g, of row g + 8}
  __device__ static PairScales Scales(const std::uint8_t* record, int /*step*/) {
    const float2 scales = HalvesOf(RecordAt<std::uint32_t>(record));
    return {{scales.x, scales.y}, {}};
  }
  __device__ static float Value(float code, float scale, float /*minimum*/) { return scale * code; }
  __device__ static int Code(const std::uint8_t* row, int column) {
    return row[column / kBlock * kBlockBytes + 2 + column % kBlock];
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const auto code = static_cast<std::int8_t>(Code(row, column));
    return HalfOfBytes(row + column / kBlock * kBlockBytes) * static_cast<float>(code);
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int /*blocks*/,
                                    std::uint8_t* record) {
    const std::uint8_t* block = row + tile * kBlockBytes;
    record[2 * high] = block[0];
    record[2 * high + 1] = block[1];
  }
};

template <>
struct Form<QuantisedForm::kQ4_0> {
  static constexpr int kBits = 4, kRecordBytes = 8, kBlock = 32, kBlockBytes = 18;
  static constexpr int kZeroCode = 8;
  static constexpr bool kHasMinimum = false;
  // Two blocks of {half scale of row g, of row g + 8}.
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    const float2 scales = HalvesOf(RecordAt<std::uint32_t>(record + step / 2 * 4));
    return {{scales.x, scales.y}, {}};
  }
  __device__ static float Value(float code, float scale, float /*minimum*/) { return scale * code; }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes + 2;
    const int i = column % kBlock;
    return i < 16 ? block[i] & 15 : block[i - 16] >> 4;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    return HalfOfBytes(row + column / kBlock * kBlockBytes) *
           static_cast<float>(Code(row, column) - 8);
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int blocks,
                                    std::uint8_t* record) {
    for (int b = 0; b < 2 && 2 * tile + b < blocks; ++b) {
      const std::uint8_t* block = row + (2 * tile + b) * kBlockBytes;
      record[4 * b + 2 * high] = block[0];
      record[4 * b + 2 * high + 1] = block[1];
    }
  }
};

template <>
struct Form<QuantisedForm::kQ4_1> {
  static constexpr int kBits = 4, kRecordBytes = 16, kBlock = 32, kBlockBytes = 20;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = true;
  // Two blocks of {half scale, half offset} of row g, of row g + 8. An offset is added: a minimum
  // with the other sign.
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    const auto block = RecordAt<uint2>(record + step / 2 * 8);
    const float2 low = HalvesOf(block.x), high = HalvesOf(block.y);
    return {{low.x, high.x}, {-low.y, -high.y}};
  }
  __device__ static float Value(float code, float scale, float minimum) {
    return scale * code - minimum;
  }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes + 4;
    const int i = column % kBlock;
    return i < 16 ? block[i] & 15 : block[i - 16] >> 4;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    return Value(static_cast<float>(Code(row, column)), HalfOfBytes(block),
                 -HalfOfBytes(block + 2));
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int blocks,
                                    std::uint8_t* record) {
    for (int b = 0; b < 2 && 2 * tile + b < blocks; ++b) {
      const std::uint8_t* block = row + (2 * tile + b) * kBlockBytes;
      for (int i = 0; i < 4; ++i) record[8 * b + 4 * high + i] = block[i];
    }
  }
};

template <>
struct Form<QuantisedForm::kQ4_K> {
  static constexpr int kBits = 4, kRecordBytes = 16, kBlock = 256, kBlockBytes = 144;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = true;
  // For each of the two rows {half scale, half minimum}, then for each row the six-bit {scale,
  // minimum} of the tile's first 32 columns and of its second.
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    const auto words = RecordAt<uint4>(record);
    const float2 low = HalvesOf(words.x), high = HalvesOf(words.y);
    const int six = step / 2 * 2;
    return {
        {low.x * FloatOfUnsigned(words.z, six), high.x * FloatOfUnsigned(words.w, six)},
        {low.y * FloatOfUnsigned(words.z, six + 1), high.y * FloatOfUnsigned(words.w, six + 1)}};
  }
  __device__ static float Value(float code, float scale, float minimum) {
    return scale * code - minimum;
  }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const int i = column % kBlock;
    const int byte = row[column / kBlock * kBlockBytes + 16 + i / 64 * 32 + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    const SixBits six(block + 4, column % kBlock / 32);
    const float scale = HalfOfBytes(block) * static_cast<float>(six.scale);
    const float minimum = HalfOfBytes(block + 2) * static_cast<float>(six.minimum);
    return scale * static_cast<float>(Code(row, column)) - minimum;
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int /*blocks*/,
                                    std::uint8_t* record) {
    const std::uint8_t* block = row + tile / 4 * kBlockBytes;
    for (int i = 0; i < 4; ++i) record[4 * high + i] = block[i];
    for (int part = 0; part < 2; ++part) {
      const SixBits six(block + 4, tile % 4 * 2 + part);
      record[8 + 4 * high + 2 * part] = static_cast<std::uint8_t>(six.scale);
      record[8 + 4 * high + 2 * part + 1] = static_cast<std::uint8_t>(six.minimum);
    }
  }
};

template <>
struct Form<QuantisedForm::kQ5_K> {
  using FourBits = Form<QuantisedForm::kQ4_K>;  // its scales and minima are the same
  static constexpr int kBits = 4, kRecordBytes = 32, kBlock = 256, kBlockBytes = 176;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = true;
  // A record of Q4_K, then a word of fifth bits for each of the four lanes of these rows.
  static constexpr int kFifthBits = 16;
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    return FourBits::Scales(record, step);
  }
  __device__ static float Value(float code, float scale, float minimum) {
    return scale * code - minimum;
  }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    const int i = column % kBlock;
    const int byte = block[48 + i / 64 * 32 + i % 32];
    return (i % 64 < 32 ? byte & 15 : byte >> 4) | ((block[16 + i % 32] >> (i / 32)) & 1) << 4;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    const SixBits six(block + 4, column % kBlock / 32);
    const float scale = HalfOfBytes(block) * static_cast<float>(six.scale);
    const float minimum = HalfOfBytes(block + 2) * static_cast<float>(six.minimum);
    return scale * static_cast<float>(Code(row, column)) - minimum;
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int blocks,
                                    std::uint8_t* record) {
    const int skipped = tile / 4 * (kBlockBytes - FourBits::kBlockBytes);  // of earlier blocks
    FourBits::PackRecord(row + skipped, tile, high, blocks, record);
  }
};

template <>
struct Form<QuantisedForm::kQ6_K> {
  static constexpr int kBits = 8, kRecordBytes = 8, kBlock = 256, kBlockBytes = 210;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = false;
  // {half scale of row g, of row g + 8}, then for each row the signed scales of the tile's first 16
  // columns and of its second.
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    const auto words = RecordAt<uint2>(record);
    const float2 halves = HalvesOf(words.x);
    return {{halves.x * FloatOfByte(words.y, step), halves.y * FloatOfByte(words.y, 2 + step)}, {}};
  }
  __device__ static float Value(float code, float scale, float /*minimum*/) { return scale * code; }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    const int i = column % kBlock;
    const int byte = block[i / 128 * 64 + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    const int high = (block[128 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
    return ((low | (high << 4)) - 32) & 255;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes;
    const auto code = static_cast<std::int8_t>(Code(row, column));
    const auto six = static_cast<std::int8_t>(block[192 + column % kBlock / 16]);
    return HalfOfBytes(block + 208) * static_cast<float>(six) * static_cast<float>(code);
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int /*blocks*/,
                                    std::uint8_t* record) {
    const std::uint8_t* block = row + tile / 8 * kBlockBytes;
    record[2 * high] = block[208];
    record[2 * high + 1] = block[209];
    for (int step = 0; step < 2; ++step) {
      record[4 + 2 * high + step] = block[192 + tile % 8 * 2 + step];
    }
  }
};

template <>
struct Form<QuantisedForm::kMXFP4> {
  static constexpr int kBits = 4, kRecordBytes = 4, kBlock = 32, kBlockBytes = 17;
  static constexpr int kZeroCode = 0;
  static constexpr bool kHasMinimum = false;
  // 2^(exponent - 127); the smallest is subnormal.
  __device__ static float PowerOf(std::uint32_t exponent) {
    return __uint_as_float(exponent == 0 ? 0x00400000u : exponent << 23);
  }
  // The number that four bits {sign, 2 of exponent, 1 of mantissa} are.
  __device__ static float FloatOf(std::uint32_t four) {
    const float magnitude = __uint_as_float((four & 7u) << 22) * 0x1p126f;
    return four & 8u ? -magnitude : magnitude;
  }
  // Two blocks of {exponent of row g, of row g + 8}.
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    const std::uint32_t block = RecordAt<std::uint32_t>(record) >> (step / 2 * 16);
    return {{PowerOf(block & 255u), PowerOf(block >> 8 & 255u)}, {}};
  }
  // No -0: the format's zero has no sign as tensor/quantization.cc reads it.
  __device__ static float Value(float code, float scale, float /*minimum*/) {
    return scale * code + 0.0f;
  }
  __device__ static int Code(const std::uint8_t* row, int column) {
    const std::uint8_t* block = row + column / kBlock * kBlockBytes + 1;
    const int i = column % kBlock;
    return i < 16 ? block[i] & 15 : block[i - 16] >> 4;
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    return Value(FloatOf(static_cast<std::uint32_t>(Code(row, column))),
                 PowerOf(row[column / kBlock * kBlockBytes]), 0.0f);
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int blocks,
                                    std::uint8_t* record) {
    for (int b = 0; b < 2 && 2 * tile + b < blocks; ++b) {
      record[2 * b + high] = row[(2 * tile + b) * kBlockBytes];
    }
  }
};

template <>
struct Form<QuantisedForm::kIQ4_NL> {
  using Linear = Form<QuantisedForm::kQ4_0>;  // its blocks and records are the same
  static constexpr int kBits = 4, kRecordBytes = 8, kBlock = 32, kBlockBytes = 18;
  static constexpr int kZeroCode = 8;  // the number 1: with scale 0 no -0
  static constexpr bool kHasMinimum = false;
  // The four numbers that four codes of four bits name, as signed bytes. The book of
  // tensor/codebook_blocks.cc, lowest code in the lowest byte.
  __device__ static std::uint32_t NumbersOf(std::uint32_t codes) {
    constexpr std::uint32_t kBook[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
    const std::uint32_t below = codes & 0x7777u;
    return __byte_perm(__byte_perm(kBook[0], kBook[1], below),
                       __byte_perm(kBook[2], kBook[3], below), 0x3210u | ((codes & 0x8888u) >> 1));
  }
  __device__ static PairScales Scales(const std::uint8_t* record, int step) {
    return Linear::Scales(record, step);
  }
  __device__ static float Value(float code, float scale, float /*minimum*/) { return scale * code; }
  __device__ static int Code(const std::uint8_t* row, int column) {
    return Linear::Code(row, column);
  }
  __device__ static float Stored(const std::uint8_t* row, int column) {
    const std::uint32_t number = NumbersOf(static_cast<std::uint32_t>(Code(row, column)));
    return HalfOfBytes(row + column / kBlock * kBlockBytes) * FloatOfByte(number, 0);
  }
  __device__ static void PackRecord(const std::uint8_t* row, int tile, int high, int blocks,
                                    std::uint8_t* record) {
    Linear::PackRecord(row, tile, high, blocks, record);
  }
};

// Whether codes are four-bit floats, five-bit numbers, names of a book's numbers.
template <QuantisedForm kForm>
inline constexpr bool kFloatCodes = kForm == QuantisedForm::kMXFP4;
template <QuantisedForm kForm>
inline constexpr bool kFiveBits = kForm == QuantisedForm::kQ5_K;
template <QuantisedForm kForm>
inline constexpr bool kBookCodes = kForm == QuantisedForm::kIQ4_NL;
template <QuantisedForm kForm>
inline constexpr int kTileColumns = Form<kForm>::kBits == 8 ? 32 : 64;
template <QuantisedForm kForm>
inline constexpr int kTileSteps = kTileColumns<kForm> / 16;

// Where the lane's fifth bits are in the record of its rows.
template <QuantisedForm kForm>
__device__ inline std::uint32_t* FifthBitsOf(std::uint8_t* record, int lane) {
  return reinterpret_cast<std::uint32_t*>(record + Form<kForm>::kFifthBits) + lane % 4;
}
template <QuantisedForm kForm>
__device__ inline std::uint32_t FifthBitsAt(const std::uint8_t* record, int lane) {
  return reinterpret_cast<const std::uint32_t*>(record + Form<kForm>::kFifthBits)[lane % 4];
}

// The code at `place` of a step as a float, from a lane's words of that tile and the record of its
// rows.
template <QuantisedForm kForm>
__device__ inline float CodeAt(const std::uint32_t* words, const std::uint8_t* record, int lane,
                               int step, int place) {
  if constexpr (kFiveBits<kForm>) {
    const std::uint32_t fifth = (FifthBitsAt<kForm>(record, lane) >> (8 * step + place)) & 1u;
    return __uint_as_float(((words[step] >> (4 * place)) & 15u) | (fifth << 4) | 0x4b000000u) -
           8388608.0f;
  } else if constexpr (kBookCodes<kForm>) {
    return FloatOfByte(Form<kForm>::NumbersOf(words[step] >> (place / 4 * 16)), place % 4);
  } else if constexpr (Form<kForm>::kBits == 8) {
    return FloatOfByte(words[2 * step + place / 4], place % 4);
  } else if constexpr (kFloatCodes<kForm>) {
    return Form<kForm>::FloatOf(words[step] >> (4 * place));
  } else {
    return FloatOfNibble(words[step], place, Form<kForm>::kZeroCode);
  }
}

}  // namespace banyan::cuda
