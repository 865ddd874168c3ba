// Codes of quantised tiles to fragments of the matrix instruction, in as few instructions as the
// bits allow: a lone warp that unpacks and multiplies has about 25 cycles for the eight codes of a
// lane before its chain waits for them.
//
// A code becomes a float by a byte permutation: bits 0x4b000000 | code << 8 (or 16) are 2^23 + 256
// (65536) code. One fused multiply-add then takes scale and offset off. It is exact: the product of
// scale and code has at most 23 bits in every form, so that the value is rounded where
// tensor/quantization.cc rounds it and nowhere else. Only zeros may have another sign (a product's
// sums start at +0, which no zero changes), and an infinite scale gives NaN.
#pragma once

#include "kernels/cuda/weights/quantised_form.cuh"

namespace banyan::cuda {

// The eight codes of a lane at a step as bytes: place p is byte p % 4 of word p / 4 (8 bits), or
// byte p / 2 of word p % 2.
template <QuantisedForm kForm>
struct StepCodes {
  static constexpr bool kBytes = Form<kForm>::kBits == 8 || kBookCodes<kForm>;
  std::uint32_t words[2];

  __device__ std::uint32_t WordOf(int place) const { return words[kBytes ? place / 4 : place % 2]; }
  __device__ static std::uint32_t ByteOf(int place) {
    return static_cast<std::uint32_t>(kBytes ? place % 4 : place / 2);
  }
};

template <QuantisedForm kForm>
__device__ inline StepCodes<kForm> CodesAt(const std::uint32_t* words, const std::uint8_t* record,
                                           int step) {
  if constexpr (kForm == QuantisedForm::kQ8_0) {
    return {{words[2 * step] ^ 0x80808080u, words[2 * step + 1] ^ 0x80808080u}};
  } else if constexpr (kForm == QuantisedForm::kQ6_K) {  // from -32 … 31 to 0 … 63
    return {{(words[2 * step] ^ 0x80808080u) - 0x60606060u,
             (words[2 * step + 1] ^ 0x80808080u) - 0x60606060u}};
  } else if constexpr (kBookCodes<kForm>) {
    return {{Form<kForm>::NumbersOf(words[step]) ^ 0x80808080u,
             Form<kForm>::NumbersOf(words[step] >> 16) ^ 0x80808080u}};
  } else {
    StepCodes<kForm> codes{{words[step] & 0x0f0f0f0fu, words[step] >> 4 & 0x0f0f0f0fu}};
    if constexpr (kFiveBits<kForm>) {
      // Bits 0, 2, 4, 6 to bits 4, 12, 20, 28; what else the product has is masked.
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const std::uint32_t bits = FifthBitsAt<kForm>(record, lane) >> (8 * step);
      codes.words[0] |= (bits & 0x55u) * 0x00410410u & 0x10101010u;
      codes.words[1] |= (bits >> 1 & 0x55u) * 0x00410410u & 0x10101010u;
    }
    return codes;
  }
}

// How a code, as such a float, becomes a weight: by `factor` and `offset` of its row, after taking
// off `zero` where the offset could not be exact otherwise.
template <QuantisedForm kForm>
struct StepScales {
  static constexpr bool kWide = kForm == QuantisedForm::kQ8_0 || kBookCodes<kForm>;
  static constexpr int kShift = kWide ? 8 : 16;  // of the code
  float factor[2], offset[2];

  __device__ StepScales(const std::uint8_t* record, int step) {
    const PairScales scales = Form<kForm>::Scales(record, step);
    constexpr float kUnit = kWide ? 0x1p-8f : 0x1p-16f;
    // 2^23 and the code that stands for zero, in units of a code.
    constexpr float kZero = 0x1p23f * kUnit + (kWide                           ? 128.0f
                                               : kForm == QuantisedForm::kQ6_K ? 32.0f
                                                                               : 8.0f);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      factor[row] = scales.scale[row] * kUnit;
      offset[row] = Form<kForm>::kHasMinimum ? -scales.minimum[row] : -(scales.scale[row] * kZero);
    }
  }
  __device__ float Weight(const StepCodes<kForm>& codes, int place) const {
    const std::uint32_t at = StepCodes<kForm>::ByteOf(place);
    float code = __uint_as_float(__byte_perm(codes.WordOf(place), 0x4b000000u,
                                             kWide ? 0x7404u | at << 4 : 0x7044u | at << 8));
    if constexpr (Form<kForm>::kHasMinimum) code -= 0x1p23f;
    const int row = place / 2 % 2;
    return __fmaf_rn(factor[row], code, offset[row]);
  }
};

// Four-bit floats {sign, 2 of exponent, 1 of mantissa}: their bf16 bits byte by byte from tables,
// times a power of two.
__device__ inline void FloatFragmentAt(const std::uint32_t* words, const std::uint8_t* record,
                                       int step, std::uint32_t (&a)[4]) {
  const PairScales scales = Form<QuantisedForm::kMXFP4>::Scales(record, step);
  std::uint32_t powers[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const std::uint32_t bits = __float_as_uint(scales.scale[row]);
    powers[row] = __byte_perm(bits, bits, 0x3232);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t codes = words[step] >> (16 * half), below = codes & 0x7777u;
    const std::uint32_t low = __byte_perm(0xc0800000u, 0xc0804000u, below);
    const std::uint32_t high = __byte_perm(0x3f3f3f00u, 0x40404040u, below) |
                               __byte_perm(0x00008000u, 0, codes >> 3 & 0x1111u);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::uint32_t pair = __byte_perm(low, high, row == 0 ? 0x5140 : 0x7362);
      const __nv_bfloat162 weights =
          __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&pair),
                  *reinterpret_cast<const __nv_bfloat162*>(&powers[row]));
      a[2 * half + row] = *reinterpret_cast<const std::uint32_t*>(&weights);
    }
  }
}

// The calling lane's four registers of the 16-row operand at one step.
template <QuantisedForm kForm>
__device__ inline void FragmentAt(const std::uint32_t* words, const std::uint8_t* record, int step,
                                  std::uint32_t (&a)[4]) {
  if constexpr (kFloatCodes<kForm>) {
    FloatFragmentAt(words, record, step, a);
  } else {
    const StepScales<kForm> scales(record, step);
    const StepCodes<kForm> codes = CodesAt<kForm>(words, record, step);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] =
          PackPair(scales.Weight(codes, 2 * i), scales.Weight(codes, 2 * i + 1), __nv_bfloat16{});
    }
  }
}

}  // namespace banyan::cuda
