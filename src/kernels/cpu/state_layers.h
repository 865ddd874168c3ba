// Layers that keep states on the cpu (Kernels::Convolve and Scan). Threads divide channels and
// heads; each goes through all runs of a step in order, so a run finds what an earlier one left.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/loops/vector_kernels.h"
#include "kernels/host_states.h"
#include "plan/batch.h"

namespace banyan {

class StateLayers {
 public:
  StateLayers(const VectorKernels& vector, ThreadPool& pool)
      : vector_(vector), pool_(pool), scratch_(static_cast<size_t>(pool.size())) {}

  void Convolve(const Batch& batch, const ConvolutionCall& call, HostStates& states, Tensor& out);
  void Scan(const Batch& batch, const ScanCall& call, HostStates& states, Tensor& out);

 private:
  // What a thread reads a head's rows from: [kRowsTogether, …] each.
  struct Scratch {
    std::vector<float> keys, queries;  // [key_dim], of length 1 with kDelta
    std::vector<float> values, out;    // [value_dim rounded up to 16]
    std::vector<float> decays, strengths;
  };
  struct Channels {
    std::int64_t begin = 0, end = 0;
  };
  void ConvolveRun(const StateRun& run, const ConvolutionCall& call, const Channels& channels,
                   HostStates& states, Tensor& out) const;
  void ScanRun(const StateRun& run, const ScanCall& call, int head, HostStates& states,
               Scratch& scratch, Tensor& out) const;
  void Gather(const ScanCall& call, int head, std::int64_t row, std::int64_t index,
              Scratch& scratch) const;

  const VectorKernels& vector_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;                  // of each worker
  std::vector<float> key_weight_, query_weight_;  // [key_dim] of their norms with kDelta
};

}  // namespace banyan
