// Choosing tokens without waiting: requests go up and results come down through pinned memory, the
// device chooses, and a later step feeds the chosen tokens straight from there.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/choices/panels.h"
#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_memory.h"
#include "kernels/cuda/device/device.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// The memory of one call, used again when it is over.
struct ChoiceBuffers {
  PinnedMemory upload, results;
  DeviceMemory device_upload, device_results;
  // Of panels: betas [experts of all], abstentions [experts of all], then winners [panels].
  PinnedMemory panels;
  DeviceMemory device_panels;
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

  const std::vector<TokenChoice>& Take() override;
  // On the device, in stream order after the call that began them.
  const ScoreResult* results() const { return buffers_->device_results.As<ScoreResult>(); }
  MeasuredExperts measured() const {
    auto* betas = buffers_->device_panels.As<double>();
    return {betas, betas + experts_};
  }
  // Where the experts of a panel's choice begin there. REQUIRES: a choice of a panel.
  std::int32_t FirstExpert(std::int32_t choice) const;

 private:
  friend class TokenChooser;
  // A choice of a panel.
  struct PanelChoice {
    std::int32_t choice = 0, first = 0, count = 0;
    bool betas = false, abstentions = false;  // were measured
  };
  void TakePanels(std::vector<TokenChoice>& choices) const;

  SelectionMemory memory_;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<ChoiceBuffers> buffers_;
  size_t count_ = 0;
  std::vector<PanelChoice> panels_;  // in the order of the call's
  std::int32_t experts_ = 0;         // of all panels
  std::vector<TokenChoice> taken_;   // what Take gave
};

class TokenChooser {
 public:
  explicit TokenChooser(std::shared_ptr<const Device> device)
      : device_(std::move(device)), pool_(std::make_shared<DeviceChoices::Pool>()) {}

  std::unique_ptr<DeviceChoices> Begin(const DeviceLogits& logits,
                                       std::span<const SamplingRow> requests);
  // With panels, at least one, each named by one request.
  std::unique_ptr<DeviceChoices> Begin(const DeviceLogits& logits,
                                       std::span<const SamplingRow> requests,
                                       const StepPanels& step, PanelFusion& fusion);

 private:
  std::unique_ptr<DeviceChoices> Prepare(std::span<const SamplingRow> requests, int vocabulary);
  void Select(const DeviceLogits& logits, std::span<const SamplingRow> requests,
              const DeviceChoices& choices);
  DeviceLogits Gather(const DeviceLogits& logits, std::span<SamplingRow> requests, size_t panels);
  std::unique_ptr<ChoiceBuffers> BuffersFor(const SelectionMemory& memory);

  std::shared_ptr<const Device> device_;
  std::shared_ptr<DeviceChoices::Pool> pool_;  // of buffers that nobody uses
  // Of the newest call, in stream order.
  DeviceMemory scratch_;
  DeviceMemory gathered_;  // panels' fused rows, then copies of the rows that others choose from
};

}  // namespace banyan::cuda
