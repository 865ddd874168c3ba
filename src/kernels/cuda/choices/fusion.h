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
  std::int32_t prior = 0;
  std::int32_t rule = 0;  // FusionRule
  std::int32_t first = 0, count = 0;
  std::int32_t betas = 0;    // BetaSource
  std::int32_t earlier = 0;  // with kEarlier: where its betas begin among the earlier ones
};

// One expert's log-sum-exp of z.
struct ExpertSum {
  double largest = 0.0, log_rest = 0.0;
};

// All pointers are to device memory.
struct FusionCall {
  DeviceLogits logits;
  int panels_count = 0, terms_count = 0;
  bool any_sums = false;  // some panel's rule needs softmax
  const DevicePanel* panels = nullptr;
  ExpertTerm* terms = nullptr;
  const std::int32_t* panel_of_term = nullptr;
  ExpertSum* sums = nullptr;  // [terms_count], written
};

// Gives the terms of panels that do not have theirs yet their betas: measured in `logits`, or found
// in `earlier` (may be null when no panel looks there). betas [terms_count]: all of them.
void SettleBetas(cudaStream_t stream, const FusionCall& call, const double* earlier, double* betas);
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
