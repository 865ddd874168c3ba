// Choosing tokens without waiting: requests go up and results come down through pinned memory, the
// device chooses, and a later step feeds the chosen tokens straight from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/choices/panels.h"
#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/device/device.h"
#include "kernels/kernels.h"
#include "kernels/sampling.h"

namespace banyan::cuda {

// Requests for tokens as one block of bytes that travels to the device, and the place of every
// array of a SelectionCall. Integers only: no CUDA call is made here.
class SelectionMemory {
 public:
  // Throws kInput when a history names a token outside the vocabulary.
  SelectionMemory(std::span<const SamplingRow> requests, int vocabulary);

  // The block to upload; `requests` as they were given.
  std::int64_t upload_bytes() const { return upload_bytes_; }
  void WriteUpload(std::span<const SamplingRow> requests, std::byte* block) const;

  // Working memory, of which the first zero_bytes() must be zero.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  std::int64_t zero_bytes() const { return zero_bytes_; }

  // Results [requests], then alternatives.
  std::int64_t result_bytes() const;
  // The alternatives of request i begin here and are at most so many.
  std::span<const ScoreResult> Alternatives(const ScoreResult* results, size_t request) const;

  // The three blocks' places on the device, each aligned to 256 bytes.
  struct Blocks {
    std::byte* upload = nullptr;
    std::byte* scratch = nullptr;
    ScoreResult* results = nullptr;
  };
  SelectionCall CallFor(const DeviceLogits& logits, const Blocks& blocks) const;

 private:
  struct Place {
    std::int64_t requests, draws, lists, penalties, histories, masks;  // upload
    std::int64_t states, bins, penalised, chunks, scores, gathered;    // scratch
  };

  void PlaceUpload(std::int64_t history_tokens, std::int64_t mask_words);
  void PlaceScratch(int vocabulary);

  std::vector<SelectionRequest> requests_;
  std::vector<std::int32_t> draws_, lists_, penalties_;
  std::vector<std::span<const std::uint32_t>> masks_;  // each once
  std::int32_t alternatives_ = 0;
  bool any_top_k_ = false, any_top_p_ = false;
  Place place_{};
  std::int64_t upload_bytes_ = 0, scratch_bytes_ = 0, zero_bytes_ = 0;
};

// The memory of one call; the pool reuses it.
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
  std::shared_ptr<DeviceChoices::Pool> pool_;  // of idle buffers
  // Of the newest call, in stream order.
  DeviceMemory scratch_;
  DeviceMemory gathered_;  // panels' fused rows, then copies of the rows that others choose from
};

}  // namespace banyan::cuda
