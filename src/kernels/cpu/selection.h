// Tokens chosen from rows of logits by several threads.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/fusion.h"
#include "kernels/sampling.h"

namespace banyan {

// Memory that lives from call to call.
struct SelectionScratch {
  std::vector<float> largest;  // [requests]
  std::vector<double> powers;  // [requests, vocabulary]
};

// choices[i] = SelectToken of the row that requests[i] names. Where there are fewer rows than
// threads these share a row's powers, which take most of the time.
void SelectTokensOnCpu(const LogitRows& logits, std::span<const SamplingRow> requests,
                       std::span<TokenChoice> choices, ThreadPool& pool, SelectionScratch& scratch);

}  // namespace banyan
