// Native float vectors of the instruction set that the including file is compiled for. Everything
// in the kernels is written for 16 logical lanes (kTile): kVectors native vectors of kLanes floats,
// so that sums have one order on every processor.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "tensor/narrow_floats.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Before a loop over registers, which must be unrolled.
#if defined(__clang__)
#define BANYAN_UNROLL _Pragma("unroll")
#else
#define BANYAN_UNROLL _Pragma("GCC unroll 16")
#endif

namespace banyan::BANYAN_SIMD_TARGET {

inline constexpr int kTile = 16;

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
inline constexpr int kVectors = kTile / kLanes;

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t IVec __attribute__((vector_size(kLanes * 4)));
typedef std::int8_t Codes __attribute__((vector_size(kLanes)));

inline Vec Load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(float* p, Vec v) { std::memcpy(p, &v, sizeof(v)); }
// As an intrinsic, which GCC turns into a memory operand.
inline Vec Broadcast(float x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_set1_ps(x);
#elif defined(__AVX2__)
  return (Vec)_mm256_set1_ps(x);
#else
  return x - Vec{};
#endif
}

#if !defined(__AVX2__) && !defined(__aarch64__)
// The product of two floats is exact as a double. Its sum with c is rounded to the neighbour whose
// last bit is odd, so that rounding once more, to float, gives the nearest float.
inline Vec FusedByDoubles(Vec a, Vec b, Vec c) {
  typedef double Doubles __attribute__((vector_size(kLanes * 8)));
  typedef std::int64_t Words __attribute__((vector_size(kLanes * 8)));
  const Doubles product = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
  const Doubles addend = __builtin_convertvector(c, Doubles);
  const Doubles sum = product + addend;
  const Doubles added = sum - product;
  const Doubles error = (product - (sum - added)) + (addend - added);
  const Words inexact = (error > 0.0) | (error < 0.0);  // not where it is NaN
  const Words even = ((Words)sum & 1) - 1;              // all bits where the last one is zero
  const Words away = (error > 0.0) == (sum > 0.0);
  const Words odd = (Words)sum + (inexact & even & ((away & 2) - 1));
  return __builtin_convertvector((Doubles)odd, Vec);
}
#endif

// a * b + c, rounded once.
inline Vec Fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return FusedByDoubles(a, b, c);
#endif
}

inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }

// kLanes half-precision values.
inline Vec LoadF16(const std::uint16_t* p) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (Vec)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__aarch64__)
  return (Vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = F16ToFloat(p[i]);
  return v;
#endif
}

inline Vec LoadBF16(const std::uint16_t* p) {
  typedef std::uint16_t Half __attribute__((vector_size(kLanes * 2)));
  typedef std::uint32_t Word __attribute__((vector_size(kLanes * 4)));
  Half half;
  std::memcpy(&half, p, sizeof(half));
  return (Vec)(__builtin_convertvector(half, Word) << 16);
}

// Rounded to the nearest, ties to even.
inline void StoreF16(std::uint16_t* p, Vec v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#else
  for (int i = 0; i < kLanes; ++i) p[i] = FloatToF16(v[i]);
#endif
}

inline void StoreBF16(std::uint16_t* p, Vec v) {
  typedef std::uint16_t Half __attribute__((vector_size(kLanes * 2)));
  typedef std::uint32_t Word __attribute__((vector_size(kLanes * 4)));
  const Word bits = (Word)v;
  const Word rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Word nan = (bits >> 16) | 0x40u;
  const Half half =
      __builtin_convertvector((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded, Half);
  std::memcpy(p, &half, sizeof(half));
}

inline Vec LoadCodes(const std::int8_t* p) {
#if defined(__AVX512F__)
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
#elif defined(__AVX2__)
  const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
#else
  Codes codes;
  std::memcpy(&codes, p, sizeof(codes));
  return __builtin_convertvector(codes, Vec);
#endif
}

// b where a is less or b is not a number.
inline Vec AtLeast(float a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_max_ps(_mm512_set1_ps(a), (__m512)b);
#elif defined(__AVX2__)
  return (Vec)_mm256_max_ps(_mm256_set1_ps(a), (__m256)b);
#else
  return b < Broadcast(a) ? Broadcast(a) : b;
#endif
}

// 2^x to about 1e-7 relative; exactly 0 below 2^-126 (and at -inf), exactly 1 at 0, NaN at NaN;
// x <= 127. Several at once: each operation waits for the one before, so that the processor needs
// others beside it.
template <int kCount>
inline void Exp2Each(Vec (&x)[kCount]) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kTaylor[] = {1.5403530e-4f, 1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f,
                               2.4022651e-1f, 6.9314718e-1f, 1.0f};  // ln(2)^k / k!, k = 6 … 0
  Vec clamped[kCount], shifted[kCount], f[kCount], p[kCount];
  BANYAN_UNROLL
  for (int n = 0; n < kCount; ++n) clamped[n] = AtLeast(-126.0f, x[n]);
  BANYAN_UNROLL
  for (int n = 0; n < kCount; ++n) shifted[n] = clamped[n] + Broadcast(kMagic);  // in the last bits
  BANYAN_UNROLL
  for (int n = 0; n < kCount; ++n) f[n] = clamped[n] - (shifted[n] - Broadcast(kMagic));
  BANYAN_UNROLL
  for (int n = 0; n < kCount; ++n) p[n] = Broadcast(1.5252734e-5f);  // k = 7; f in [-0.5, 0.5]
  BANYAN_UNROLL
  for (const float coefficient : kTaylor) {
    BANYAN_UNROLL
    for (int n = 0; n < kCount; ++n) p[n] = Fma(p[n], f[n], Broadcast(coefficient));
  }
  BANYAN_UNROLL
  for (int n = 0; n < kCount; ++n) {
    const Vec scaled = (Vec)((IVec)p[n] + ((IVec)shifted[n] << 23));
    x[n] = x[n] >= Broadcast(-126.0f) ? scaled : clamped[n] - clamped[n];
  }
}
inline Vec Exp2(Vec x) {
  Vec one[1] = {x};
  Exp2Each(one);
  return one[0];
}

// The lanes of one vector joined by join(left, right), always the upper half onto the lower one,
// until there are four.
template <typename Wide, typename Join>
inline auto JoinHalves(Wide v, const Join& join) {
  if constexpr (sizeof(Wide) == 64) {
    return JoinHalves(join(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)),
                      join);
  } else if constexpr (sizeof(Wide) == 32) {
    return join(__builtin_shufflevector(v, v, 0, 1, 2, 3),
                __builtin_shufflevector(v, v, 4, 5, 6, 7));
  } else {
    return v;
  }
}

template <typename Wide, typename Join>
inline auto JoinTile(const Wide (&v)[kVectors], const Join& join) {
  Wide one = v[0];
  if constexpr (kVectors == 2) one = join(v[0], v[1]);
  if constexpr (kVectors == 4) one = join(join(v[0], v[2]), join(v[1], v[3]));
  const auto four = JoinHalves(one, join);
  return join(join(four[0], four[2]), join(four[1], four[3]));
}

// Lane i of the result: all lanes of v[i] joined, always the upper half onto the lower one, as
// JoinTile does it.
template <int kApart, typename Wide, typename Join, int... lane>
inline Wide JoinPair(Wide a, Wide b, const Join& join, std::integer_sequence<int, lane...>) {
  return join(
      __builtin_shufflevector(a, b, ((lane & kApart) == 0 ? lane : kLanes + lane - kApart)...),
      __builtin_shufflevector(a, b, ((lane & kApart) == 0 ? lane + kApart : kLanes + lane)...));
}
template <int kApart = kLanes / 2, typename Wide, typename Join>
inline Wide JoinEach(Wide (&v)[kLanes], const Join& join) {
  BANYAN_UNROLL
  for (int i = 0; i < kApart; ++i) {
    v[i] = JoinPair<kApart>(v[i], v[i + kApart], join, std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (kApart > 1) return JoinEach<kApart / 2>(v, join);
  return v[0];
}

// Sixteen lanes added in one fixed order: halves onto halves.
inline float SumTile(const Vec (&v)[kVectors]) {
  return JoinTile(v, [](auto a, auto b) { return a + b; });
}
inline float LargestOfTile(const Vec (&v)[kVectors]) {
  return JoinTile(v, [](auto a, auto b) { return a > b ? a : b; });
}

}  // namespace banyan::BANYAN_SIMD_TARGET
