// Steps that come again with the same shape as CUDA graphs: launched by one call, and on the device
// without the gaps between launches. A step is run as it is when its shape is first seen (kernels
// then make their decisions and their memory), recorded the second time, and replayed afterwards.
//
// What makes replays right: index arrays stay where they were (device_step.h) and hold the counts
// that kernels read; activations, weights, KV and partials are where they were, or the key differs.
//
// Several devices that compute one step together are recorded as one graph, on the stream of the
// first: the others' streams branch off from it and join it at the end. REQUIRES of the caller:
// the first device's stream follows the others' before Run, and they follow it afterwards.
//
// A step may be recorded with products whose candidates are guesses. When there is time to measure
// one, the step is run as it is once more, which does that, and recorded again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/step/device_step.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

class StepGraphs : public Recorder {
 public:
  // What operations use that is not in their arguments. All of it must outlive this.
  struct Source {
    std::shared_ptr<const Device> device;
    const PartialMemory* partials = nullptr;
    const Unsettled* products = nullptr;
  };
  // REQUIRES: one at least.
  explicit StepGraphs(std::vector<Source> sources) : sources_(std::move(sources)) {}
  ~StepGraphs() override;

  void Run(std::span<const RecordedStep> steps, int variant,
           const std::function<void()>& operations) override;

 private:
  struct DeviceKey {
    DeviceStep::Layout layout;
    const void* kv = nullptr;
    const void* states = nullptr;
    const void* partials = nullptr;
    const void* queries = nullptr;
    std::int64_t partials_bytes = 0;
    auto operator<=>(const DeviceKey&) const = default;
  };
  struct Key {
    int variant = 0, rows = 0, logit_rows = 0;
    std::vector<DeviceKey> devices;
    auto operator<=>(const Key&) const = default;
  };
  struct Recorded {
    cudaGraphExec_t graph = nullptr;
    Recording on_host;
    std::vector<std::int64_t> partial_bytes;  // [devices] of one partial
    bool refused = false;                     // it cannot be recorded
    bool unsettled = false;                   // it holds guesses
    std::uint64_t used = 0;                   // clock of the last run
  };
  bool Record(Recorded& recorded, const std::function<void()>& operations);
  cudaGraph_t Capture(const std::function<void()>& operations, Recording& on_host);
  void Forget(Recorded& recorded);  // REQUIRES: its graph is not running
  void ForgetOldest();

  const Device& first() const { return *sources_.front().device; }
  bool CanReplay(std::span<const RecordedStep> steps) const;
  bool MaySettle() const;
  std::int64_t Guesses() const;

  const std::vector<Source> sources_;
  std::map<Key, Recorded> seen_;
  int graphs_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace banyan::cuda
