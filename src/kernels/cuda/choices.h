// Choosing tokens without waiting: requests go up and results come down through pinned memory, and
// a later step feeds the chosen tokens straight from the device. Rows that the device cannot choose
// for are downloaded and chosen by kernels/sampling.h: then Begin waits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/selection.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Logits on the device: rows of `stride` floats of which `vocabulary` count.
struct DeviceLogits {
  const float* values = nullptr;
  std::int64_t stride = 0;
  int vocabulary = 0;
};

// The memory of one call, used again when it is over.
struct ChoiceBuffers {
  PinnedMemory requests, results;  // [capacity]
  DeviceMemory device_requests, device_results;
  int capacity = 0;
  Event done;  // results are in pinned memory
};

class DeviceChoices : public PendingChoices {
 public:
  using Pool = std::vector<std::unique_ptr<ChoiceBuffers>>;
  DeviceChoices(std::shared_ptr<Pool> pool, std::unique_ptr<ChoiceBuffers> buffers, int vocabulary)
      : pool_(std::move(pool)), buffers_(std::move(buffers)), vocabulary_(vocabulary) {}
  ~DeviceChoices() override { pool_->push_back(std::move(buffers_)); }

  std::vector<TokenChoice> Take() override;
  // On the device, in stream order after the call that began them.
  const ScoreResult* results() const { return buffers_->device_results.As<ScoreResult>(); }

 private:
  friend class TokenChooser;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<ChoiceBuffers> buffers_;
  int vocabulary_ = 0;
  int count_ = 0;
  std::vector<TokenChoice> on_host_;  // [count] when some rows were chosen on the host
};

class TokenChooser {
 public:
  explicit TokenChooser(std::shared_ptr<const Device> device)
      : device_(std::move(device)), pool_(std::make_shared<DeviceChoices::Pool>()) {}

  std::unique_ptr<DeviceChoices> Begin(const DeviceLogits& logits,
                                       std::span<const SamplingRow> requests);

 private:
  std::unique_ptr<ChoiceBuffers> BuffersFor(int count);
  void ChooseOnHost(const DeviceLogits& logits, std::span<const SamplingRow> requests,
                    DeviceChoices& choices);

  std::shared_ptr<const Device> device_;
  std::shared_ptr<DeviceChoices::Pool> pool_;  // of buffers that nobody uses
};

}  // namespace banyan::cuda
