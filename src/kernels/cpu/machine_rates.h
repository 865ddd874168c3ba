// What this machine reaches at best, with the loops that the backend itself uses.
#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_path.h"
#include "plan/cost.h"

namespace banyan {

// Best of a few short runs on all threads: products that stay in cache, and reading the weights
// where they lie (read_rate.h). Products are those of 8-bit codes where `codes`, else of float32.
MachineRates MeasureCpuRates(const CpuPath& path, bool codes,
                             std::span<const std::span<const std::byte>> weights, ThreadPool& pool);

}  // namespace banyan
