#include "load/device_list.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/machine_limits.h"
#include "kernels/kernels.h"

namespace banyan {
namespace {

constexpr const char* kExpected =
    "expected cpu, cuda or reference, or several of one kind: cuda:0,1 or cuda:all or cpu,cpu";

[[noreturn]] void ThrowUnknown(const std::string& devices, std::string_view part) {
  Throw(ErrorKind::kUsage, "--device {}: unknown device '{}': {}", devices, part, kExpected);
}

int OrdinalOf(std::string_view digits, const std::string& devices, std::string_view part) {
  int ordinal = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error != std::errc() || end != digits.data() + digits.size() || ordinal < 0) {
    ThrowUnknown(devices, part);
  }
  return ordinal;
}

// Appends the device that a part names, or all of "cuda:all". A number goes on with the GPUs.
void AddPart(const std::string& devices, std::string_view part, std::vector<DeviceName>& found) {
  const bool after_gpu = !found.empty() && found.back().ordinal >= 0;
  const size_t colon = part.find(':');
  if (colon == std::string_view::npos) {
    if (part == "cpu" || part == "reference" || part == "cuda") {
      found.push_back({std::string(part)});
    } else if (after_gpu) {
      found.push_back({"cuda", OrdinalOf(part, devices, part)});
    } else {
      ThrowUnknown(devices, part);
    }
    return;
  }
  if (part.substr(0, colon) != "cuda") ThrowUnknown(devices, part);
  const std::string_view which = part.substr(colon + 1);
  if (which != "all") return found.push_back({"cuda", OrdinalOf(which, devices, part)});
  const int count = CountGpus();
  for (int ordinal = 0; ordinal < count; ++ordinal) found.push_back({"cuda", ordinal});
}

std::string NameOf(const DeviceName& device) {
  return device.ordinal < 0 ? device.backend : fmt::format("{}:{}", device.backend, device.ordinal);
}

}  // namespace

int DeviceName::ShareOfThreads(int threads) const {
  if (sharers == 1) return threads;
  const int all = threads > 0 ? threads : UsableProcessors();
  return std::max(1, all / sharers + (place < all % sharers ? 1 : 0));
}

std::vector<DeviceName> ParseDevices(const std::string& devices) {
  std::vector<DeviceName> found;
  for (size_t begin = 0; begin <= devices.size();) {
    const size_t end = std::min(devices.find(',', begin), devices.size());
    AddPart(devices, std::string_view(devices).substr(begin, end - begin), found);
    begin = end + 1;
  }
  if (found.size() > static_cast<size_t>(kMostDevices)) {
    Throw(ErrorKind::kUsage, "--device {}: expected at most {} devices, found {}", devices,
          kMostDevices, found.size());
  }
  std::map<std::string, int> times;
  for (DeviceName& device : found) {
    if (device.backend != found.front().backend) {
      Throw(ErrorKind::kUsage,
            "--device {}: expected devices of one kind, because {} and {} differ in the last bits "
            "of an answer; --shard runs a job on each",
            devices, found.front().backend, device.backend);
    }
    // Among others, the current GPU has its number.
    if (found.size() > 1 && device.backend == "cuda" && device.ordinal < 0) device.ordinal = 0;
    device.name = NameOf(device);
    device.place = times[device.name]++;
  }
  for (DeviceName& device : found) {
    device.sharers = times[device.name];
    if (device.sharers > 1) device.name += fmt::format("#{}", device.place + 1);
  }
  return found;
}

std::vector<DeviceName> InShards(const std::vector<DeviceName>& devices, int shards) {
  if (shards <= 1 || devices.size() == 1) return devices;
  const auto size = static_cast<size_t>(shards);
  if (devices.size() % size != 0) {
    Throw(ErrorKind::kUsage,
          "--tensor-parallel {}: expected one device or a multiple of {}, found {} in --device",
          shards, shards, devices.size());
  }
  std::vector<DeviceName> groups;
  std::vector<std::vector<int>> gpus;  // [groups] sorted
  for (size_t begin = 0; begin < devices.size(); begin += size) {
    DeviceName& group = groups.emplace_back(devices[begin]);
    std::vector<int>& theirs = gpus.emplace_back();
    for (size_t i = begin; i < begin + size; ++i) {
      const DeviceName& device = devices[i];
      if (i > begin) group.name += "+" + device.name.substr(device.name.find_first_of(":#") + 1);
      if (device.ordinal >= 0) group.shard_ordinals.push_back(device.ordinal);
      theirs.push_back(device.ordinal);
    }
    std::ranges::sort(theirs);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].sharers = groups[g].place = 0;
    for (size_t other = 0; other < groups.size(); ++other) {
      if (gpus[other] == gpus[g]) {
        ++groups[g].sharers;
        if (other < g) ++groups[g].place;
        continue;
      }
      const auto common = std::ranges::find_first_of(gpus[g], gpus[other]);
      if (common == gpus[g].end()) continue;
      Throw(
          ErrorKind::kUsage,
          "--tensor-parallel {}: groups {} and {} share cuda:{}: expected groups of the same GPUs "
          "or of others",
          shards, groups[g].name, groups[other].name, *common);
    }
  }
  return groups;
}

int FewestShards(const std::vector<DeviceName>& devices, std::int64_t weight_bytes,
                 const std::function<std::int64_t(const DeviceName&)>& memory) {
  const int count = static_cast<int>(devices.size());
  for (int shards = 1; shards < count; ++shards) {
    if (count % shards != 0) continue;
    const bool fits = std::ranges::all_of(devices, [&](const DeviceName& device) {
      return weight_bytes / shards * device.sharers <= memory(device) / 4 * 3;
    });
    if (fits) return shards;
  }
  return count;
}

std::string BackendOf(const std::string& devices) {
  return devices.substr(0, devices.find_first_of(",:"));
}

}  // namespace banyan
