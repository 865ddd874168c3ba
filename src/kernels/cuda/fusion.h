// Fused logits of panels on the device: see kernels/fusion.h for what they are. Sums over the
// vocabulary are taken by one block a row in an order that the vocabulary fixes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/selection.h"
#include "kernels/fusion.h"

namespace banyan::cuda {

// A panel; its experts are terms [first, first + count).
struct DevicePanel {
  std::int32_t prior = 0;
  std::int32_t rule = 0;  // FusionRule
  std::int32_t first = 0, count = 0;
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
  const ExpertTerm* terms = nullptr;
  const std::int32_t* panel_of_term = nullptr;
  ExpertSum* sums = nullptr;  // [terms_count], written
};

// out [panels_count] rows of `out_stride` floats.
void FuseRows(cudaStream_t stream, const FusionCall& call, float* out, std::int64_t out_stride);
// winners [panels_count]: the expert that tokens[i] is owed to.
void FindWinningExperts(cudaStream_t stream, const FusionCall& call, const std::int32_t* tokens,
                        std::int32_t* winners);
// bits [count] of the rows pairs[2i] and pairs[2i + 1].
void DivergenceOfRows(cudaStream_t stream, const DeviceLogits& logits, const std::int32_t* pairs,
                      int count, double* bits);

}  // namespace banyan::cuda
