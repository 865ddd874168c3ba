#include "kernels/cpu/cpu_path.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace banyan {

namespace simd_base {
const VectorKernels& Table();
}
namespace integer_portable {
const IntegerKernels& Table();
}
#if defined(__x86_64__)
namespace simd_avx2 {
const VectorKernels& Table();
}
namespace simd_avx512 {
const VectorKernels& Table();
}
namespace integer_avx2 {
const IntegerKernels& Table();
}
namespace integer_avxvnni {
const IntegerKernels& Table();
}
namespace integer_avx512vnni {
const IntegerKernels& Table();
}
#elif defined(__aarch64__)
namespace integer_neon {
const IntegerKernels& Table();
}
namespace integer_dotprod {
const IntegerKernels& Table();
}
namespace integer_i8mm {
const IntegerKernels& Table();
}
#endif

namespace {

bool Always() { return true; }

#if defined(__x86_64__)
// Older compilers do not know F16C and AVX-VNNI by name.
bool HasHalfConversions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasHalfConversions();
}
bool HasAvxVnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return HasAvx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool HasAvx512Vnni() { return HasAvx512() && __builtin_cpu_supports("avx512vnni"); }
#elif defined(__aarch64__)
constexpr unsigned long kDotProduct = 1ul << 20;      // of AT_HWCAP
constexpr unsigned long kMatrixProducts = 1ul << 13;  // of AT_HWCAP2
bool HasDotProduct() { return (getauxval(AT_HWCAP) & kDotProduct) != 0; }
bool HasMatrixProducts() {
  return HasDotProduct() && (getauxval(AT_HWCAP2) & kMatrixProducts) != 0;
}
#endif

const CpuPath& Choose() {
  const char* wanted = std::getenv("BANYAN_CPU");
  std::string names;
  for (const CpuPath& path : CpuPaths()) {
    names += names.empty() ? path.name : std::string(", ") + path.name;
    if (wanted != nullptr && std::strcmp(wanted, path.name) != 0) continue;
    if (path.supported()) return path;
    if (wanted != nullptr) {
      Throw(ErrorKind::kUnsupported, "BANYAN_CPU: this processor has no {}", wanted);
    }
  }
  Throw(ErrorKind::kUsage, "BANYAN_CPU: expected one of {}, found '{}'", names, wanted);
}

}  // namespace

std::span<const CpuPath> CpuPaths() {
  static const CpuPath paths[] = {
#if defined(__x86_64__)
    {"avx512vnni", HasAvx512Vnni, simd_avx512::Table(), integer_avx512vnni::Table()},
    {"avx512", HasAvx512, simd_avx512::Table(), integer_avx2::Table()},
    {"avxvnni", HasAvxVnni, simd_avx2::Table(), integer_avxvnni::Table()},
    {"avx2", HasAvx2, simd_avx2::Table(), integer_avx2::Table()},
#elif defined(__aarch64__)
    {"i8mm", HasMatrixProducts, simd_base::Table(), integer_i8mm::Table()},
    {"dotprod", HasDotProduct, simd_base::Table(), integer_dotprod::Table()},
    {"neon", Always, simd_base::Table(), integer_neon::Table()},
#endif
    {"portable", Always, simd_base::Table(), integer_portable::Table()},
  };
  return paths;
}

const CpuPath& CpuPathOfThisMachine() {
  static const CpuPath& chosen = Choose();
  return chosen;
}

}  // namespace banyan
