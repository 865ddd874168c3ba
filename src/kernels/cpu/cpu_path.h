// The instruction sets of the cpu backend: for each, inner loops in float32 and integer products.
// All give the same bits.
#pragma once

#include <span>

#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/vector_kernels.h"

namespace banyan {

struct CpuPath {
  const char* name;     // "avx512vnni"
  bool (*supported)();  // by the processor at hand
  const VectorKernels& vector;
  const IntegerKernels& integer;
};

// Best first; the last is supported everywhere.
std::span<const CpuPath> CpuPaths();

// The best one that the processor supports, or the one that BANYAN_CPU names. Throws kUsage for an
// unknown name, and kUnsupported for one that the processor lacks.
const CpuPath& CpuPathOfThisMachine();

}  // namespace banyan
