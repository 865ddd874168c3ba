// Integer products for AVX2.
#define BANYAN_SIMD_TARGET integer_avx2
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 4;
constexpr int kBias = 0;
constexpr int VectorsFor(int rows) { return rows > 2 ? 1 : kVectors; }

// The instruction multiplies unsigned by signed bytes and adds pairs in 16 bits: |w| times x with
// the sign of w is at most 2 * 128 * 127 = 32512.
template <int kRows, bool kNibbles, int kVecs>
struct Sums {
  static constexpr int kVectorBytes = 32;
  __m256i sums[kRows][kVecs];

  void Start(int row, std::int32_t value) {
    BANYAN_UNROLL
    for (int i = 0; i < kVecs; ++i) sums[row][i] = _mm256_set1_epi32(value);
  }
  static __m256i Codes(const std::uint8_t* p, int half) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if (!kNibbles) return bytes;
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_and_si256(half == 0 ? bytes : _mm256_srli_epi16(bytes, 4), low);
  }
  static __m256i FourColumns(const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  void Add(const std::uint8_t* weights, int half, const std::int8_t* x) {
    if (!kNibbles) weights += half * kTile * kHalfColumns;
    x += half * kHalfColumns;
    const __m256i ones = _mm256_set1_epi16(1);
    BANYAN_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      __m256i pairs[kRows];  // of nibbles: four products of at most 2 * 15 * 127 fit 16 bits
      BANYAN_UNROLL
      for (int c = 0; c < kHalfColumns; c += 4) {
        const __m256i codes = Codes(weights + c * kTile + 32 * i, half);
        const __m256i magnitude = kNibbles ? codes : _mm256_abs_epi8(codes);
        BANYAN_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m256i values = FourColumns(x + r * kBlockColumns + c);
          if (kNibbles) {
            const __m256i products = _mm256_maddubs_epi16(codes, values);
            pairs[r] = c == 0 ? products : _mm256_add_epi16(pairs[r], products);
          } else {
            const __m256i products =
                _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(values, codes));
            sums[r][i] = _mm256_add_epi32(sums[r][i], _mm256_madd_epi16(products, ones));
          }
        }
      }
      if (!kNibbles) continue;
      BANYAN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sums[r][i] = _mm256_add_epi32(sums[r][i], _mm256_madd_epi16(pairs[r], ones));
      }
    }
  }
  Vec Float(int row, int v) const { return (Vec)_mm256_cvtepi32_ps(sums[row][v]); }
};

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/loops/integer_product.inc"

namespace banyan::BANYAN_SIMD_TARGET {
const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4, kBias, kStartUnit, kMaxRows, ProductOfCodes};
  return table;
}
}  // namespace banyan::BANYAN_SIMD_TARGET
