// The cpu backend: SIMD inner loops chosen at start (vector_kernels.h), threads over outputs, rows
// and attention items, never over the terms of a sum.
#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace banyan {

std::unique_ptr<Kernels> MakeCpuKernels(const KernelOptions& options);

}  // namespace banyan
