// How much of the machine this process may use: its hardware, the process's CPU affinity, and the
// limits of its control group (a container, a service, a batch job).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace banyan {

struct GroupLimits {
  std::optional<std::int64_t> memory_bytes;
  std::optional<double> processors;  // time of so many
};

// The limits of the control groups (version 1 or 2) that a process is in, from the text of its
// /proc/PID/cgroup and the groups' file system: the least of a group's own and of all above it.
GroupLimits ReadGroupLimits(const std::string& groups_of_process,
                            const std::filesystem::path& mounted = "/sys/fs/cgroup");

std::int64_t UsableMemory();  // bytes; 4 GiB when nothing can be known
int UsableProcessors();       // 1 or more

}  // namespace banyan
