// Integer products for AVX-512 with VNNI.
#define BANYAN_SIMD_TARGET integer_avx512vnni
#include "kernels/cpu/integer_kernels.h"
#include "kernels/cpu/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 12;
constexpr int VectorsFor(int) { return kVectors; }
using IntVec = __m512i;

inline IntVec Spread(std::int32_t value) { return _mm512_set1_epi32(value); }
inline IntVec LoadBytes(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
inline IntVec FlipSigns(IntVec v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
inline IntVec LowerHalves(IntVec v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
inline IntVec UpperHalves(IntVec v) { return LowerHalves(_mm512_srli_epi16(v, 4)); }
inline IntVec DotOfFour(IntVec sum, IntVec codes, IntVec x) {
  return _mm512_dpbusd_epi32(sum, codes, x);
}
inline Vec ToFloat(IntVec v) { return (Vec)_mm512_cvtepi32_ps(v); }

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/integer_vnni.inc"
