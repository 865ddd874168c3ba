// How many processors this process may use.
#pragma once

#include <optional>
#include <string>

namespace banyan {

// Those that it may run on, or fewer where a container limits its time (Linux control groups).
int UsableProcessors();

// Processors' worth of time that the control group mounted at `folder` allows, rounded up; nothing
// where it sets no limit. Reads cpu.max, or of older kernels cpu/cpu.cfs_quota_us and _period_us.
std::optional<int> ProcessorQuota(const std::string& folder);

}  // namespace banyan
