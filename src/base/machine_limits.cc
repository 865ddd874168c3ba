// Limits of control groups, of the CPU affinity and of the machine itself.
#include "base/machine_limits.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

namespace banyan {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first number of the text; nothing for "max", for a limit that is none and for no text.
std::optional<double> NumberIn(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || number <= 0.0) return std::nullopt;
  return number;
}

void Lower(std::optional<double>& limit, std::optional<double> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

struct Limits {
  std::optional<double> memory, processors;
};

// Files of both versions: a folder has those of one.
void ReadFolder(const fs::path& folder, Limits& limits) {
  Lower(limits.memory, NumberIn(TextOf(folder / "memory.max")));
  Lower(limits.memory, NumberIn(TextOf(folder / "memory.high")));
  Lower(limits.memory, NumberIn(TextOf(folder / "memory.limit_in_bytes")));
  const std::string both = TextOf(folder / "cpu.max");  // "QUOTA PERIOD"
  const size_t space = both.find(' ');
  const auto quota = NumberIn(both);
  const auto period = space == std::string::npos ? std::nullopt : NumberIn(both.substr(space));
  if (quota && period) Lower(limits.processors, *quota / *period);
  const auto old_quota = NumberIn(TextOf(folder / "cpu.cfs_quota_us"));
  const auto old_period = NumberIn(TextOf(folder / "cpu.cfs_period_us"));
  if (old_quota && old_period) Lower(limits.processors, *old_quota / *old_period);
}

// The group and all above it. A group that cannot be seen from inside a container is not there; its
// limits are those of the mounted root.
void ReadGroupAndAbove(const fs::path& mounted, const fs::path& group, Limits& limits) {
  fs::path at = group.relative_path();
  while (true) {
    ReadFolder(at.empty() ? mounted : mounted / at, limits);
    if (at.empty()) return;
    at = at.parent_path();
  }
}

}  // namespace

GroupLimits ReadGroupLimits(const std::string& groups_of_process, const fs::path& mounted) {
  Limits limits;
  std::istringstream lines(groups_of_process);
  std::string line;  // "ID:CONTROLLERS:/GROUP"; version 2 has no controllers
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (group.find("..") != std::string::npos) continue;
    if (controllers.empty()) {
      ReadGroupAndAbove(mounted, group, limits);
      ReadGroupAndAbove(mounted / "unified", group, limits);
      continue;
    }
    std::istringstream names(controllers);
    std::string name;
    while (std::getline(names, name, ',')) {
      if (name != "memory" && name != "cpu") continue;
      ReadGroupAndAbove(mounted / name, group, limits);
      ReadGroupAndAbove(mounted / controllers, group, limits);
    }
  }
  GroupLimits result;
  // Version 1 writes "no limit" as the largest multiple of a page.
  constexpr double kNoLimit = 0x1p60;
  if (limits.memory && *limits.memory < kNoLimit) {
    result.memory_bytes = static_cast<std::int64_t>(*limits.memory);
  }
  result.processors = limits.processors;
  return result;
}

std::int64_t UsableMemory() {
  std::int64_t bytes = std::int64_t{4} << 30;
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) bytes = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
  const GroupLimits limits = ReadGroupLimits(TextOf("/proc/self/cgroup"));
  return std::min(bytes, limits.memory_bytes.value_or(bytes));
}

int UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
  const GroupLimits limits = ReadGroupLimits(TextOf("/proc/self/cgroup"));
  // Threads beyond the granted time would wait for each other while the group is held up.
  if (limits.processors && *limits.processors < count) count = static_cast<int>(*limits.processors);
  return std::max(1, count);
}

}  // namespace banyan
