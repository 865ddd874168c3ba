#include "kernels/cpu/vector_kernels.h"

#include <array>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace banyan {

namespace simd_base {
const VectorKernels& Table(const char* name, bool (*supported)());
}
#if defined(__x86_64__)
namespace simd_avx2 {
const VectorKernels& Table(const char* name, bool (*supported)());
}
namespace simd_avx512 {
const VectorKernels& Table(const char* name, bool (*supported)());
}
#endif

namespace {

#if defined(__x86_64__)
// F16C, which Clang 14 does not know by name.
bool HasHalfConversions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

const VectorKernels& Choose() {
#if defined(__x86_64__)
  const std::array<const VectorKernels*, 3> best_first = {
      &simd_avx512::Table("avx512",
                          [] {
                            return __builtin_cpu_supports("avx512f") &&
                                   __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512vl") &&
                                   __builtin_cpu_supports("avx512dq");
                          }),
      &simd_avx2::Table("avx2",
                        [] {
                          return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 HasHalfConversions();
                        }),
      &simd_base::Table("sse2", [] { return true; })};
#else
  const std::array<const VectorKernels*, 1> best_first = {
      &simd_base::Table("neon", [] { return true; })};
#endif
  // BANYAN_CPU=avx2 and the like take a lesser set, for tests and comparisons.
  const char* wanted = std::getenv("BANYAN_CPU");
  for (const VectorKernels* table : best_first) {
    if (wanted != nullptr && std::strcmp(wanted, table->name) != 0) continue;
    if (table->supported()) return *table;
  }
  return *best_first.back();
}

}  // namespace

const VectorKernels& VectorKernelsOfThisMachine() {
  static const VectorKernels& chosen = Choose();
  return chosen;
}

}  // namespace banyan
