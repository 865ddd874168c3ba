// Integer products for aarch64 with 8-bit matrix instructions (Armv8.6 FEAT_I8MM): two rows meet
// two outputs over eight columns at once.
#define BANYAN_SIMD_TARGET integer_i8mm
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 2;  // more leave too few of the 32 registers
constexpr int kBias = 0;
constexpr int VectorsFor(int) { return kVectors; }

// See integer_dotprod.cc.
constexpr std::int32_t kBitsOfZero = 0x4b400000;
constexpr float kFloatOfZero = 12582912.0f;

// Lanes of a sum: {row 0, output 0}, {row 0, output 1}, {row 1, output 0}, {row 1, output 1}. A
// last odd row stands in both.
template <int kRows, bool kNibbles, int kVecs>
struct Sums {
  static constexpr int kVectorBytes = 32;
  static constexpr int kPairs = (kRows + 1) / 2;
  int32x4_t sums[kPairs][2 * kVecs];

  void Start(int row, std::int32_t value) {
    const int32x4_t start = vdupq_n_s32(kBitsOfZero + value);
    BANYAN_UNROLL
    for (int i = 0; i < 2 * kVecs; ++i) {
      int32x4_t& sum = sums[row / 2][i];
      sum = row % 2 == 0 ? start : vcombine_s32(vget_low_s32(sum), vget_low_s32(start));
    }
  }
  static int8x16_t Codes(const std::uint8_t* p, int half) {
    const uint8x16_t bytes = vld1q_u8(p);
    if (!kNibbles) return vreinterpretq_s8_u8(bytes);
    return vreinterpretq_s8_u8(half == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4));
  }
  void Add(const std::uint8_t* weights, int half, const std::int8_t* x) {
    if (!kNibbles) weights += half * kTile * kHalfColumns;
    x += half * kHalfColumns;
    BANYAN_UNROLL
    for (int c = 0; c < kHalfColumns; c += 8) {
      int8x16_t pairs[kPairs];
      BANYAN_UNROLL
      for (int q = 0; q < kPairs; ++q) {
        const std::int8_t* first = x + 2 * q * kBlockColumns + c;
        const std::int8_t* second = 2 * q + 1 < kRows ? first + kBlockColumns : first;
        pairs[q] = vcombine_s8(vld1_s8(first), vld1_s8(second));
      }
      BANYAN_UNROLL
      for (int i = 0; i < 2 * kVecs; ++i) {
        const int8x16_t codes = Codes(weights + c * kTile + 16 * i, half);
        BANYAN_UNROLL
        for (int q = 0; q < kPairs; ++q) sums[q][i] = vmmlaq_s32(sums[q][i], pairs[q], codes);
      }
    }
  }
  Vec Float(int row, int v) const {
    const int64x2_t a = vreinterpretq_s64_s32(sums[row / 2][2 * v]);
    const int64x2_t b = vreinterpretq_s64_s32(sums[row / 2][2 * v + 1]);
    const int64x2_t both = row % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b);
    return (Vec)vreinterpretq_f32_s64(both) - Broadcast(kFloatOfZero);
  }
};

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/loops/integer_product.inc"

namespace banyan::BANYAN_SIMD_TARGET {
const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {8, kBias, kStartUnit, kMaxRows, ProductOfCodes};
  return table;
}
}  // namespace banyan::BANYAN_SIMD_TARGET
