// Panels of experts on the device: packs them, launches fusion.cu, and brings back what is small.
#pragma once

#include <memory>
#include <span>

#include "kernels/cuda/choices/fusion.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/staging.h"

namespace banyan::cuda {

class PanelFusion {
 public:
  explicit PanelFusion(std::shared_ptr<const Device> device)
      : device_(device), staging_(std::move(device)) {}

  // For panels of a step whose tokens are chosen afterwards; does not wait. Panel i is chosen from
  // row i of `out`, as choice choices[i].
  struct StepCall {
    DeviceLogits logits;
    std::span<const PanelRow> panels;
    std::span<const std::int32_t> choices;
    std::span<const std::int32_t> earlier_first;  // [panels] in `earlier`, of those that look there
    MeasuredExperts earlier;                      // nulls: no panel looks there
    float* out = nullptr;
    MeasuredExperts measured;
  };
  void FuseStep(const StepCall& call);
  // After that, once the tokens are chosen on the device.
  void FindStepWinners(const ScoreResult* results, std::int32_t* winners) const;

  // Does not wait.
  void Fuse(const DeviceLogits& logits, std::span<const PanelRow> panels, float* out,
            std::int64_t out_stride);
  // These two do.
  void FindWinners(const DeviceLogits& logits, std::span<const PanelRow> panels,
                   std::span<const TokenId> tokens, std::span<std::int32_t> winners);
  void MeasureDivergence(const DeviceLogits& logits, std::span<const RowPair> pairs,
                         std::span<double> bits);

 private:
  // `integers` (tokens, choices): one for every panel, or none.
  FusionCall Upload(const DeviceLogits& logits, std::span<const PanelRow> panels,
                    std::span<const std::int32_t> integers,
                    std::span<const std::int32_t> earlier_first = {});
  void Take(const DeviceMemory& source, void* target, size_t bytes) const;

  std::shared_ptr<const Device> device_;
  Staging staging_;
  DeviceMemory memory_;                   // of the newest call, in stream order
  const std::int32_t* tokens_ = nullptr;  // in memory_: the integers of the newest call
  FusionCall step_;                       // of the newest FuseStep
};

}  // namespace banyan::cuda
