// From rows of logits to tokens on the cpu: selection, scores and fused rows, by several threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/loops/vector_kernels.h"
#include "kernels/fusion.h"
#include "kernels/kernels.h"

namespace banyan {

// The operations of Kernels that read logits; see there for the contracts.
//
// Powers of a row are float32, added in 16 lanes within parts of 2048 tokens; the sums of parts are
// added as doubles, in order. So threads may share a row.
class TokenChooser {
 public:
  TokenChooser(const VectorKernels& vector, ThreadPool& pool) : vector_(vector), pool_(pool) {}

  void Choose(const LogitRows& logits, std::span<const SamplingRow> requests,
              const StepPanels& panels, std::unique_ptr<PendingChoices>& choices);
  void SelectTokens(const LogitRows& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices);

 private:
  LogSumExp LogSum(std::span<const float> logits) const;

  const VectorKernels& vector_;
  ThreadPool& pool_;
  // Kept from call to call.
  std::vector<float> largest_;  // [requests]
  std::vector<double> sums_;    // [requests, parts of the vocabulary]
};

}  // namespace banyan
