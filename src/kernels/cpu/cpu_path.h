// The ways through the cpu backend that this build has: inner loops in float32 and products of
// codes, for one instruction set each. All give the same bits.
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

// The best that the processor supports, or the one that BANYAN_CPU names. Throws kUsage for a name
// that is none, and kUnsupported for one that the processor lacks.
const CpuPath& CpuPathOfThisMachine();

}  // namespace banyan
