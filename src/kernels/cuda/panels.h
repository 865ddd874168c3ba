// Panels of experts on the device: packs them, launches fusion.cu, and brings back what is small.
#pragma once

#include <memory>
#include <span>

#include "kernels/cuda/device.h"
#include "kernels/cuda/fusion.h"
#include "kernels/cuda/staging.h"

namespace banyan::cuda {

class PanelFusion {
 public:
  explicit PanelFusion(std::shared_ptr<const Device> device)
      : device_(device), staging_(std::move(device)) {}

  // Does not wait.
  void Fuse(const DeviceLogits& logits, std::span<const PanelRow> panels, float* out,
            std::int64_t out_stride);
  // These two do.
  void FindWinners(const DeviceLogits& logits, std::span<const PanelRow> panels,
                   std::span<const TokenId> tokens, std::span<std::int32_t> winners);
  void MeasureDivergence(const DeviceLogits& logits, std::span<const RowPair> pairs,
                         std::span<double> bits);

 private:
  FusionCall Upload(const DeviceLogits& logits, std::span<const PanelRow> panels,
                    std::span<const TokenId> tokens);
  void Take(const DeviceMemory& source, void* target, size_t bytes) const;

  std::shared_ptr<const Device> device_;
  Staging staging_;
  DeviceMemory memory_;                   // of the newest call, in stream order
  const std::int32_t* tokens_ = nullptr;  // in memory_
};

}  // namespace banyan::cuda
