// LoadOptions::device: one device, or several that compute side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace banyan {

struct DeviceName {
  std::string backend;  // "cpu", "reference" or "cuda"
  int ordinal = -1;     // of a GPU; -1: the process's current one
  std::string name{};   // "cuda:1"; of a device that comes several times, "cpu#2"
  // The same device may come several times: each place has its own copy of the weights, and they
  // share its threads and its memory.
  int sharers = 1;                    // how often it comes
  int place = 0;                      // among these, from 0
  std::vector<int> shard_ordinals{};  // of GPUs that have a shard of one model each; else empty

  // Of so many threads (0: all that the process may use), at least 1.
  int ShareOfThreads(int threads) const;
};

inline constexpr int kMostDevices = 64;

// Devices with commas between them: "cpu", "cuda", "cuda:0,1" (or "cuda:0,cuda:1"), "cuda:all",
// "cpu,cpu". Throws kUsage for what is none, or for devices of several kinds, whose answers differ;
// kUnsupported for cuda:all without a GPU.
std::vector<DeviceName> ParseDevices(const std::string& devices);

// The same devices in groups of `shards`, each of which computes one model together: "cuda:0+1",
// "cpu#1+2". One device alone has all shards. Throws kUsage where groups would be of other sizes,
// or share some GPUs and not all.
std::vector<DeviceName> InShards(const std::vector<DeviceName>& devices, int shards);

// The fewest shards of a model, of so many bytes, that leave a quarter of every device's memory to
// other things; one for each device where none do.
int FewestShards(const std::vector<DeviceName>& devices, std::int64_t weight_bytes,
                 const std::function<std::int64_t(const DeviceName&)>& memory);

// "cuda" of "cuda:0,1".
std::string BackendOf(const std::string& devices);

}  // namespace banyan
