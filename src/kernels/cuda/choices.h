// Choosing tokens without waiting: requests go up and results come down through pinned memory, the
// device chooses, and a later step feeds the chosen tokens straight from there.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/selection.h"
#include "kernels/cuda/selection_memory.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// The memory of one call, used again when it is over.
struct ChoiceBuffers {
  PinnedMemory upload, results;
  DeviceMemory device_upload, device_results;
  Event done;  // results are in pinned memory
};

class DeviceChoices : public PendingChoices {
 public:
  using Pool = std::vector<std::unique_ptr<ChoiceBuffers>>;
  DeviceChoices(std::shared_ptr<Pool> pool, std::span<const SamplingRow> requests, int vocabulary)
      : memory_(requests, vocabulary), pool_(std::move(pool)), count_(requests.size()) {}
  ~DeviceChoices() override {
    if (buffers_) pool_->push_back(std::move(buffers_));
  }

  std::vector<TokenChoice> Take() override;
  // On the device, in stream order after the call that began them.
  const ScoreResult* results() const { return buffers_->device_results.As<ScoreResult>(); }

 private:
  friend class TokenChooser;
  SelectionMemory memory_;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<ChoiceBuffers> buffers_;
  size_t count_ = 0;
};

class TokenChooser {
 public:
  explicit TokenChooser(std::shared_ptr<const Device> device)
      : device_(std::move(device)), pool_(std::make_shared<DeviceChoices::Pool>()) {}

  std::unique_ptr<DeviceChoices> Begin(const DeviceLogits& logits,
                                       std::span<const SamplingRow> requests);

 private:
  std::unique_ptr<ChoiceBuffers> BuffersFor(const SelectionMemory& memory);

  std::shared_ptr<const Device> device_;
  std::shared_ptr<DeviceChoices::Pool> pool_;  // of buffers that nobody uses
  DeviceMemory scratch_;                       // of the newest call, in stream order
};

}  // namespace banyan::cuda
