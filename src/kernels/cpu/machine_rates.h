// The highest rates that this machine reaches with the backend's own loops: matrix products, and
// reading memory.
#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_path.h"
#include "plan/cost.h"

namespace banyan {

// Best of a few short runs on all threads: products that stay in cache, and MeasureReadRate of the
// weights. Products are in int8 if `quantized`, else in float32.
MachineRates MeasureCpuRates(const CpuPath& path, bool quantized,
                             std::span<const std::span<const std::byte>> weights, ThreadPool& pool);

// Bytes per second that all threads together read from `memory`, for some milliseconds: the best of
// a few runs, each of which continues where the last one ended. If `memory` is so small that caches
// would hold it, buffers of its own are added, up to 16 MiB in all.
double MeasureReadRate(std::span<const std::span<const std::byte>> memory, ThreadPool& pool);

}  // namespace banyan
