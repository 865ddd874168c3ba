// A step's batch and plan in device memory: all index arrays in one block, sent by one copy.
#pragma once

#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/staging.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

class DeviceStep : public StepInputs {
 public:
  const std::int32_t* tokens = nullptr;       // [rows]
  const std::int32_t* positions = nullptr;    // [rows]
  const std::int32_t* slots = nullptr;        // [rows]
  const std::int32_t* logit_index = nullptr;  // [logit_rows]
  const float* cosine = nullptr;              // [rows, pairs], filled by the backend
  const float* sine = nullptr;
  // The plan; see AttentionCall.
  const std::int32_t* pages = nullptr;
  const std::int32_t* merge_begin = nullptr;
  const MergeEntry* merges = nullptr;
  std::int32_t partials = 0;

  // Work units for `ratio` query heads per KV head; sent when the step was uploaded for another.
  struct Split {
    int ratio = 0;
    UnitForm form = UnitForm::kBlocks;
    bool operator==(const Split&) const = default;
  };
  const UnitLists& UnitsFor(Split split, Staging& staging) const;

  DeviceMemory memory;

 private:
  friend std::unique_ptr<DeviceStep> UploadStep(const std::shared_ptr<const Device>&, const Batch&,
                                                const AttentionPlan&, int, Split, Staging&);
  std::shared_ptr<const Device> device_;
  std::vector<WorkUnit> items_;              // every item once, all its rows
  std::vector<std::int32_t> row_positions_;  // [rows]
  mutable Split split_;
  mutable UnitLists units_;
  mutable DeviceMemory other_units_;
};

// `pairs` makes room for cosines and sines; `split` is what attention is expected to ask for.
std::unique_ptr<DeviceStep> UploadStep(const std::shared_ptr<const Device>& device,
                                       const Batch& batch, const AttentionPlan& plan, int pairs,
                                       DeviceStep::Split split, Staging& staging);

}  // namespace banyan::cuda
