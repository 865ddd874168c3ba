// Times on the device: recorded launches, and runs with cold caches (timing.h).
#include "kernels/cuda/device/timing.h"

namespace banyan::cuda {

namespace {

cudaGraph_t Record(cudaStream_t stream, const std::function<void()>& body) {
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  Check(cudaStreamEndCapture(stream, &graph), "recording");
  return graph;
}

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

LaunchGraph::LaunchGraph(const Device& device, const std::function<void()>& body)
    : stream_(device.stream) {
  const cudaGraph_t graph = Record(stream_, body);
  cudaError_t status = cudaGraphInstantiate(&ready_, graph, 0);
  cudaGraphDestroy(graph);
  Check(status, "graph");
  status = cudaGraphUpload(ready_, stream_);  // otherwise the first launch would do it
  if (status != cudaSuccess) cudaGraphExecDestroy(ready_);
  Check(status, "graph");
}

LaunchGraph::~LaunchGraph() {
  cudaStreamSynchronize(stream_);  // it may still be in flight
  cudaGraphExecDestroy(ready_);
}

double LaunchGraph::Seconds(int launches) {
  start_.Record(stream_);
  for (int i = 0; i < launches; ++i) Check(cudaGraphLaunch(ready_, stream_), "graph");
  end_.Record(stream_);
  return end_.SecondsSince(start_);
}

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
