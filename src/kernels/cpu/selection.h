// Tokens chosen from rows of logits by several threads.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/fusion.h"
#include "kernels/log_sum.h"
#include "kernels/sampling.h"

namespace banyan {

// Memory that lives from call to call.
struct SelectionScratch {
  std::vector<float> largest;  // [requests]
  std::vector<double> sums;    // [requests, parts of the vocabulary]
};

struct SelectionWorkers {
  const VectorKernels& vector;
  ThreadPool& pool;
  SelectionScratch& scratch;
};

// Powers of a row are float32, added in 16 lanes within parts of 2048 tokens; the sums of parts are
// added as doubles, in order. So threads may share a row.
LogSumExp LogSumOnCpu(std::span<const float> logits, const VectorKernels& vector);

// choices[i] = SelectToken of the row that requests[i] names, with the sum as above.
void SelectTokensOnCpu(const LogitRows& logits, std::span<const SamplingRow> requests,
                       std::span<TokenChoice> choices, const SelectionWorkers& workers);

}  // namespace banyan
