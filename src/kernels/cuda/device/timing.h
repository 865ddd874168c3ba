// Times on the device, and what depends on them: launches as they run inside a recorded step, and
// launches that a measurement may yet replace.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Launches recorded once as a CUDA graph, so that they are timed as a recorded step runs them:
// without the host's part and without gaps between launches. step_graphs.h records steps.
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

// Times work on the device as it is inside a step: by events, with cold caches. Seconds from the
// moment the device begins a run's work to its end; launches are queued behind the emptying of the
// cache, so that the host's time does not count.
std::vector<double> TimeOnDevice(const std::shared_ptr<const Device>& device, const TimedRuns& runs,
                                 const std::function<void()>& work);

// Launches that may yet be replaced by faster ones with the same bits, as the recorder of a step
// sees them. A recording that holds some is made again once they are settled.
class Unsettled {
 public:
  virtual ~Unsettled() = default;
  // Such launches so far: more after a recording than before it means that it holds some.
  virtual std::int64_t launches() const = 0;
  // Whether there is time to settle the next one that is run, not recorded.
  virtual bool MaySettle() const = 0;
};

}  // namespace banyan::cuda
