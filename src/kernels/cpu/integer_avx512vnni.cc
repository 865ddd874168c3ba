// Integer products for AVX-512 with VNNI.
#define BANYAN_SIMD_TARGET integer_avx512vnni
#include "kernels/cpu/integer_kernels.h"
#include "kernels/cpu/simd.h"

namespace banyan::BANYAN_SIMD_TARGET {
namespace {

constexpr int kMaxRows = 12;
constexpr int kStoredBias = 128;

}  // namespace
}  // namespace banyan::BANYAN_SIMD_TARGET

#include "kernels/cpu/integer_avx512vnni.inc"

namespace banyan::BANYAN_SIMD_TARGET {
const IntegerKernels& Table() {
  static constexpr IntegerKernels table = {4,        kStoredBias, kStartUnit,
                                           kMaxRows, 1,           ProductOfCodes<VectorRows>};
  return table;
}
}  // namespace banyan::BANYAN_SIMD_TARGET
