// Fused logits of panels on the device: see kernels/fusion.h for what they are. Sums over the
// vocabulary are taken by one block a row in an order that the vocabulary fixes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/choices/selection.h"
#include "kernels/fusion.h"

namespace banyan::cuda {

// A panel; its experts are terms [first, first + count).
struct DevicePanel {
  double log_plausibility = 0.0;
  double abstention = 0.0;  // 0: nobody abstains
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
// experts; nulls: nobody wants them. Once for a call, before all that follows.
void SettleTerms(cudaStream_t stream, const FusionCall& call, const MeasuredExperts& earlier,
                 const MeasuredExperts& measured);
// out [panels_count] rows of `out_stride` floats.
void FuseRows(cudaStream_t stream, const FusionCall& call, float* out, std::int64_t out_stride);
// winners [panels_count]: the expert that tokens[i] is owed to.
void FindWinningExperts(cudaStream_t stream, const FusionCall& call, const std::int32_t* tokens,
                        std::int32_t* winners);
// The same for tokens that are being chosen: panel i's is results[choices[i]]. kNone: there is
// none.
void FindChosenExperts(cudaStream_t stream, const FusionCall& call, const std::int32_t* choices,
                       const ScoreResult* results, std::int32_t* winners);
// bits [count] of the rows pairs[2i] and pairs[2i + 1].
void DivergenceOfRows(cudaStream_t stream, const DeviceLogits& logits, const std::int32_t* pairs,
                      int count, double* bits);

}  // namespace banyan::cuda
