// Attention as a step sees it: its index arrays go to the device, Q and K are rotated and K and V
// stored, and rows attend to what the plan shows them. Here is what passes from one of these calls
// to the next (angles, counters, partials, queries in 16 bits, the expected split); the launches
// are those of rope_store.h and attention.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/rows/rope_store.h"
#include "kernels/cuda/step/device_step.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

class StepAttention {
 public:
  // `staging` must outlive this.
  StepAttention(std::shared_ptr<const Device> device, const KernelOptions& options,
                Staging& staging);

  // As the functions of Kernels; `kv` is that of the layer.
  GroupJoining JoiningFor(const AttentionShape& shape) const;
  void SetRopes(std::span<const RopeTable> ropes);
  std::unique_ptr<DeviceStep> Upload(const Batch& batch, const AttentionPlan& plan,
                                     const PendingChoices* earlier);
  void RotateAndStore(const DeviceStep& step, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, const KvView& kv);
  void Attend(const DeviceStep& step, const AttentionShape& shape, const Tensor& qkv,
              const KvView& kv, Tensor& out);

  const PartialMemory& partials() const { return partials_; }

 private:
  UnitForm FormOf(const AttentionShape& shape) const;
  UnitForm FormOf(const DeviceStep& step, const AttentionShape& shape) const;
  // Attention of wide and narrow units reads queries in 16 bits.
  void AddScaledQueries(const AttentionShape& shape, RotateCall& call);

  std::shared_ptr<const Device> device_;
  Precision precision_;
  KvType kv_type_;
  Staging& staging_;
  StepSender steps_;
  DeviceMemory next_unit_;  // see AttentionCall
  std::vector<RopeTable> ropes_;
  std::vector<DeviceMemory> inverse_frequencies_;  // of each rope
  // What layers ask Attend for: in the last step that was not replayed, and since the last Upload.
  std::vector<UnitSplit> splits_ = {{1, 1, UnitForm::kBlocks}}, asked_;
  PartialMemory partials_;
  const float* rotated_ = nullptr;  // whose queries partials_ has
};

}  // namespace banyan::cuda
