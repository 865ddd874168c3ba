#include "kernels/cuda/device/timed_runs.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;
// Ten times the largest L2 cache (50 MB), and about 0.1 ms to read on an H200.
constexpr std::int64_t kFlushBytes = std::int64_t{512} << 20;

// Reads everything. Nothing is written, so that no dirty line has to leave the cache while a timed
// run is under way; the store keeps the compiler from dropping the reads.
__global__ void ReadAllKernel(const uint4* memory, std::int64_t count, unsigned* never) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  unsigned seen = 0;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < count; i += step) {
    const uint4 value = memory[i];
    seen |= value.x | value.y | value.z | value.w;
  }
  if (seen != 0) *never = seen;
}

}  // namespace

std::vector<double> TimeOnDevice(const std::shared_ptr<const Device>& device, const TimedRuns& runs,
                                 const std::function<void()>& work) {
  DeviceMemory flushed;
  if (runs.empty_caches) {
    flushed = DeviceMemory(device, kFlushBytes, "emptying the cache");
    flushed.Zero();
  }
  const unsigned blocks = static_cast<unsigned>(device->multiprocessors) * 8;
  std::vector<double> seconds;
  Event start, end;
  for (int run = 0; run < runs.count; ++run) {
    if (runs.empty_caches) {
      ReadAllKernel<<<blocks, kThreads, 0, device->stream>>>(flushed.As<uint4>(), kFlushBytes / 16,
                                                             flushed.As<unsigned>());
      CheckLaunch("emptying the cache");
    }
    start.Record(device->stream);
    work();
    end.Record(device->stream);
    seconds.push_back(end.SecondsSince(start));
  }
  return seconds;
}

}  // namespace banyan::cuda
