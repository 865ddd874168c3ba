// Times work on the device as it is inside a step: by events, with cold caches.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Seconds from the moment the device begins a run's work to its end; launches are queued behind the
// emptying of the cache, so that the host's time does not count.
std::vector<double> TimeOnDevice(const std::shared_ptr<const Device>& device, const TimedRuns& runs,
                                 const std::function<void()>& work);

}  // namespace banyan::cuda
