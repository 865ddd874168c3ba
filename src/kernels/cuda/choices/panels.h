// Panels of experts on the device: their fused logits (kernels/fusion.h says what they are), by
// launches over device pointers (panels.cu), and a class that packs panels and launches them.
// Sums over the vocabulary are taken by one block a row, in an order that the vocabulary fixes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/device/device.h"
#include "kernels/fusion.h"

namespace banyan::cuda {

// A panel; its experts are terms [first, first + count).
struct DevicePanel {
  double log_plausibility = 0.0;
  double abstention = 0.0;  // 0: none abstains
  std::int32_t prior = 0;
  std::int32_t rule = 0;  // FusionRule
  std::int32_t first = 0, count = 0;
  std::int32_t betas = 0;        // BetaSource
  std::int32_t abstentions = 0;  // AbstentionSource
  std::int32_t earlier = 0;      // with kEarlier: its first expert among the earlier ones
  std::int32_t normalised = 0, limited = 0, needs_rows = 0;  // 0 or 1; limited: plausibility
  std::int32_t first_null = 0, null_count = 0;
};

// log(sum(exp)) of one row.
struct ExpertSum {
  double largest = 0.0, log_rest = 0.0;
};

// What was measured of the experts of all panels, on the device: [experts] each.
struct MeasuredExperts {
  double* betas = nullptr;
  double* abstentions = nullptr;
};

// All pointers are to device memory.
struct FusionCall {
  DeviceLogits logits;
  int panels_count = 0, terms_count = 0;
  bool any_sums = false;      // some panel's rule needs softmax
  bool any_row_sums = false;  // PanelRow::NeedsRowSums of some
  const DevicePanel* panels = nullptr;
  ExpertTerm* terms = nullptr;
  const std::int32_t* panel_of_term = nullptr;
  const std::int32_t* null_tokens = nullptr;
  ExpertSum* sums = nullptr;      // [terms_count] of z, written
  ExpertSum* row_sums = nullptr;  // [terms_count] of the experts' rows, then [panels_count] of the
                                  // priors', written
};

// Makes terms that TermsOf gave complete: betas and abstentions that are not given are measured in
// `logits` or found in `earlier` (nulls when no panel looks there). `measured` gets those of all
// experts; nulls: they are not wanted. Once for a call, before all that follows.
void SettleTerms(cudaStream_t stream, const FusionCall& call, const MeasuredExperts& earlier,
                 const MeasuredExperts& measured);
// out [panels_count] rows of `out_stride` floats.
void FuseRows(cudaStream_t stream, const FusionCall& call, float* out, std::int64_t out_stride);
// winners [panels_count]: the expert that panel i's token results[choices[i]] is owed to; kNone
// where no token was chosen.
void FindChosenExperts(cudaStream_t stream, const FusionCall& call, const std::int32_t* choices,
                       const ScoreResult* results, std::int32_t* winners);
// Packs panels and launches their kernels.
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

 private:
  // `integers` (tokens, choices): one for every panel, or none.
  FusionCall Upload(const DeviceLogits& logits, std::span<const PanelRow> panels,
                    std::span<const std::int32_t> integers,
                    std::span<const std::int32_t> earlier_first = {});

  std::shared_ptr<const Device> device_;
  Staging staging_;
  DeviceMemory memory_;                   // of the newest call, in stream order
  const std::int32_t* tokens_ = nullptr;  // in memory_: the integers of the newest call
  FusionCall step_;                       // of the newest FuseStep
};

}  // namespace banyan::cuda
