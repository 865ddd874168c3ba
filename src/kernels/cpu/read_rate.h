// How fast this machine reads memory that it holds anyway.
#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"

namespace banyan {

// Bytes a second that all threads together read from `memory`, as much of it as takes some
// milliseconds; the best of a few runs, each of which goes on where the last one ended. Takes no
// memory of its own unless that is little, which caches would hold: then 16 MiB in all are read.
double MeasureReadRate(std::span<const std::span<const std::byte>> memory, ThreadPool& pool);

}  // namespace banyan
