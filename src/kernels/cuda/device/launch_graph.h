// Launches recorded once as a CUDA graph, to be timed as a recorded step runs them: without the
// host's part and without the gaps between launches. Recording of steps is in step_graphs.h.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

class LaunchGraph {
 public:
  // Of what `body` launches on the device's stream, without running it. Throws what `body` throws,
  // and kIo when something of it cannot be recorded; the stream is as before then.
  LaunchGraph(const Device& device, const std::function<void()>& body);
  ~LaunchGraph();
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  // Seconds of so many launches one after another, from when the device has done everything before
  // them.
  double Seconds(int launches);

 private:
  cudaStream_t stream_;
  cudaGraphExec_t ready_ = nullptr;
  Event start_, end_;
};

}  // namespace banyan::cuda
