#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

namespace banyan {
namespace {

// Microseconds of time within every `period` microseconds.
std::optional<int> WholeProcessors(double quota, double period) {
  if (!(quota > 0.0) || !(period > 0.0)) return std::nullopt;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

}  // namespace

std::optional<int> ProcessorQuota(const std::string& folder) {
  double quota = 0.0, period = 0.0;
  // "max" instead of a number: no limit, and no number is read.
  if (std::ifstream file(folder + "/cpu.max"); file) {
    if (file >> quota >> period) return WholeProcessors(quota, period);
    return std::nullopt;
  }
  std::ifstream quota_file(folder + "/cpu/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu/cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return WholeProcessors(quota, period);
}

int UsableProcessors() {
  int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) processors = std::max(1, CPU_COUNT(&set));
  return std::min(processors, ProcessorQuota("/sys/fs/cgroup").value_or(processors));
}

}  // namespace banyan
