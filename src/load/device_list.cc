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

std::string BackendOf(const std::string& devices) {
  return devices.substr(0, devices.find_first_of(",:"));
}

}  // namespace banyan
