// Integer products for AVX2 with AVX-VNNI.
#define BANYAN_SIMD_TARGET integer_avxvnni
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 4;
constexpr int VectorsFor(int rows) { return rows > 2 ? 1 : kVectors; }
using IntVec = __m256i;

inline IntVec BroadcastInt(std::int32_t value) { return _mm256_set1_epi32(value); }
inline IntVec LoadBytes(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline IntVec LowerHalves(IntVec v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
inline IntVec UpperHalves(IntVec v) { return LowerHalves(_mm256_srli_epi16(v, 4)); }
// sum += products of the outputs' four columns with four codes at x.
inline void AddDotOfFour(IntVec codes, const std::int8_t* x, IntVec& sum) {
  std::int32_t four;
  std::memcpy(&four, x, sizeof(four));
  sum = _mm256_dpbusd_avx_epi32(sum, codes, BroadcastInt(four));
}
inline Vec ToFloat(IntVec v) { return (Vec)_mm256_cvtepi32_ps(v); }

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/loops/integer_vnni.inc"

namespace banyan::BANYAN_SIMD_TARGET {
const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4, kBias, kStartUnit, kMaxRows, ProductOfCodes};
  return table;
}
}  // namespace banyan::BANYAN_SIMD_TARGET
