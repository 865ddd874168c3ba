// LoadOptions::device: one device, or several that compute side by side.
#pragma once

#include <string>
#include <vector>

namespace banyan {

struct DeviceName {
  std::string backend;  // "cpu", "reference" or "cuda"
  int ordinal = -1;     // of a GPU; -1: the process's current one
  std::string name{};   // "cuda:1"; of a device that comes several times, "cpu#2"
  // The same device may come several times: each place has its own copy of the weights, and they
  // share its threads and its memory.
  int sharers = 1;  // how often it comes
  int place = 0;    // among these, from 0

  // Of so many threads (0: all that the process may use), at least 1.
  int ShareOfThreads(int threads) const;
};

inline constexpr int kMostDevices = 64;

// Devices with commas between them: "cpu", "cuda", "cuda:0,1" (or "cuda:0,cuda:1"), "cuda:all",
// "cpu,cpu". Throws kUsage for what is none, or for devices of several kinds, whose answers differ;
// kUnsupported for cuda:all without a GPU.
std::vector<DeviceName> ParseDevices(const std::string& devices);

// "cuda" of "cuda:0,1".
std::string BackendOf(const std::string& devices);

}  // namespace banyan
