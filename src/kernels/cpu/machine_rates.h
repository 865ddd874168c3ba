// What this machine reaches at best, with the loops that the backend itself uses.
#pragma once

#include "base/thread_pool.h"
#include "kernels/cpu/vector_kernels.h"
#include "plan/cost.h"

namespace banyan {

// Best of a few short runs on all threads: float32 products that stay in cache, and a sequential
// read of more memory than caches hold.
MachineRates MeasureCpuRates(const VectorKernels& vector, ThreadPool& pool);

}  // namespace banyan
