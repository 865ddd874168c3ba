// Integer products in plain C++, for any processor.
#define BANYAN_SIMD_TARGET integer_portable
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 2;
constexpr int kBias = 0;
constexpr int VectorsFor(int) { return kVectors; }

template <int kRows, bool kNibbles, int kVecs>
struct Sums {
  static constexpr int kVectorBytes = kLanes * 4;
  std::int32_t sums[kRows][kTile];

  void Start(int row, std::int32_t value) {
    for (int j = 0; j < kTile; ++j) sums[row][j] = value;
  }
  void Add(const std::uint8_t* weights, int half, const std::int8_t* x) {
    if (!kNibbles) weights += half * kTile * kHalfColumns;
    for (int c = 0; c < kHalfColumns; c += 4) {
      const std::uint8_t* chunk = weights + c * kTile;
      std::int16_t code[4][kTile];
      for (int j = 0; j < kTile; ++j) {
        for (int i = 0; i < 4; ++i) {
          const std::uint8_t byte = chunk[4 * j + i];
          code[i][j] = !kNibbles   ? static_cast<std::int8_t>(byte)
                       : half == 0 ? static_cast<std::int16_t>(byte & 15)
                                   : static_cast<std::int16_t>(byte >> 4);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        const std::int8_t* values = x + r * kBlockColumns + half * kHalfColumns + c;
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < kTile; ++j) {
            sums[r][j] += static_cast<std::int32_t>(code[i][j]) * values[i];
          }
        }
      }
    }
  }
  Vec Float(int row, int v) const {
    IVec values;
    std::memcpy(&values, sums[row] + v * kLanes, sizeof(values));
    return __builtin_convertvector(values, Vec);
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
