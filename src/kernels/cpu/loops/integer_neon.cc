// Integer products for aarch64 without dot-product instructions: 16-bit products, added in pairs.
#define BANYAN_SIMD_TARGET integer_neon
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 2;
constexpr int kBias = 0;
constexpr int VectorsFor(int rows) { return rows > 1 ? 2 : kVectors; }

// Output j has its sum in two parts, lanes 2 j and 2 j + 1 of the vectors.
template <int kRows, bool kNibbles, int kVecs>
struct Sums {
  static constexpr int kVectorBytes = 16;
  int32x4_t parts[kRows][2 * kVecs];

  void Start(int row, std::int32_t value) {
    const int32x4_t start = vsetq_lane_s32(value, vsetq_lane_s32(value, vdupq_n_s32(0), 0), 2);
    BANYAN_UNROLL
    for (int i = 0; i < 2 * kVecs; ++i) parts[row][i] = start;
  }
  static int8x16_t Codes(const std::uint8_t* p, int half) {
    const uint8x16_t bytes = vld1q_u8(p);
    if (!kNibbles) return vreinterpretq_s8_u8(bytes);
    return vreinterpretq_s8_u8(half == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4));
  }
  static int8x16_t FourColumns(const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  void Add(const std::uint8_t* weights, int half, const std::int8_t* x) {
    if (!kNibbles) weights += half * kTile * kHalfColumns;
    x += half * kHalfColumns;
    // Two products of codes fit 16 bits: 2 * 128 * 127 = 32512.
    BANYAN_UNROLL
    for (int c = 0; c < kHalfColumns; c += 8) {
      BANYAN_UNROLL
      for (int i = 0; i < kVecs; ++i) {
        const int8x16_t a = Codes(weights + c * kTile + 16 * i, half);
        const int8x16_t b = Codes(weights + (c + 4) * kTile + 16 * i, half);
        BANYAN_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const int8x16_t xa = FourColumns(x + r * kBlockColumns + c);
          const int8x16_t xb = FourColumns(x + r * kBlockColumns + c + 4);
          int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(xa));
          low = vmlal_s8(low, vget_low_s8(b), vget_low_s8(xb));
          int16x8_t high = vmull_high_s8(a, xa);
          high = vmlal_high_s8(high, b, xb);
          parts[r][2 * i] = vpadalq_s16(parts[r][2 * i], low);
          parts[r][2 * i + 1] = vpadalq_s16(parts[r][2 * i + 1], high);
        }
      }
    }
  }
  Vec Float(int row, int v) const {
    return (Vec)vcvtq_f32_s32(vpaddq_s32(parts[row][2 * v], parts[row][2 * v + 1]));
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
