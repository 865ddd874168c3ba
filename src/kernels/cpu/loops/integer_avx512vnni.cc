// Integer products for AVX-512 with VNNI.
#define BANYAN_SIMD_TARGET integer_avx512vnni
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 12;
constexpr int VectorsFor(int) { return kVectors; }
using IntVec = __m512i;

inline IntVec BroadcastInt(std::int32_t value) { return _mm512_set1_epi32(value); }
inline IntVec LoadBytes(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
inline IntVec LowerHalves(IntVec v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
inline IntVec UpperHalves(IntVec v) { return LowerHalves(_mm512_srli_epi16(v, 4)); }
// sum += products of the outputs' four columns with four codes at x. GCC would load and broadcast x
// by an instruction of its own; as an operand it costs none, which makes the loop twice as fast.
inline void AddDotOfFour(IntVec codes, const std::int8_t* x, IntVec& sum) {
  struct Four {
    std::int8_t codes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(codes), "m"(*reinterpret_cast<const Four*>(x)));
}
inline Vec ToFloat(IntVec v) { return (Vec)_mm512_cvtepi32_ps(v); }

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/loops/integer_vnni.inc"

namespace banyan::BANYAN_SIMD_TARGET {
const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4, kBias, kStartUnit, kMaxRows, ProductOfCodes};
  return table;
}
}  // namespace banyan::BANYAN_SIMD_TARGET
