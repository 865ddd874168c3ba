// Integer products for aarch64 with dot-product instructions (Armv8.2 FEAT_DotProd).
#define BANYAN_SIMD_TARGET integer_dotprod
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 2;  // more leave too few of the 32 registers
constexpr int kBias = 0;
constexpr int VectorsFor(int) { return kVectors; }

// Sums are kept as the bits of 1.5 * 2^23 plus the sum: read as a float, less 1.5 * 2^23, that is
// the sum itself while it is below 2^22. A subtraction has twice the rate of a conversion.
constexpr std::int32_t kBitsOfZero = 0x4b400000;
constexpr float kFloatOfZero = 12582912.0f;

template <int kRows, bool kNibbles, int kVecs>
struct Sums {
  static constexpr int kVectorBytes = 16;
  int32x4_t sums[kRows][kVecs];

  void Start(int row, std::int32_t value) {
    BANYAN_UNROLL
    for (int i = 0; i < kVecs; ++i) sums[row][i] = vdupq_n_s32(kBitsOfZero + value);
  }
  static int8x16_t Codes(const std::uint8_t* p, int half) {
    const uint8x16_t bytes = vld1q_u8(p);
    if (!kNibbles) return vreinterpretq_s8_u8(bytes);
    return vreinterpretq_s8_u8(half == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4));
  }
  template <int kChunk>
  void AddFour(const std::uint8_t* weights, int half, const int8x16_t (&x)[kRows]) {
    BANYAN_UNROLL
    for (int i = 0; i < kVecs; ++i) {
      const int8x16_t codes = Codes(weights + kChunk * 64 + 16 * i, half);
      BANYAN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sums[r][i] = vdotq_laneq_s32(sums[r][i], codes, x[r], kChunk);
      }
    }
  }
  void Add(const std::uint8_t* weights, int half, const std::int8_t* x) {
    if (!kNibbles) weights += half * kTile * kHalfColumns;
    int8x16_t values[kRows];
    BANYAN_UNROLL
    for (int r = 0; r < kRows; ++r)
      values[r] = vld1q_s8(x + r * kBlockColumns + half * kHalfColumns);
    AddFour<0>(weights, half, values);
    AddFour<1>(weights, half, values);
    AddFour<2>(weights, half, values);
    AddFour<3>(weights, half, values);
  }
  Vec Float(int row, int v) const {
    return (Vec)vreinterpretq_f32_s32(sums[row][v]) - Broadcast(kFloatOfZero);
  }
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
