// Mixtures of experts on the cpu (Kernels::MixExperts). Rows are sorted by expert, so that an
// expert's weights are read once for all rows that chose it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/product.h"
#include "kernels/experts.h"

namespace banyan {

class ExpertMixer {
 public:
  explicit ExpertMixer(ProductThreads& products) : products_(products) {}
  void Mix(const Tensor& x, const ExpertCall& call, Tensor& out);

 private:
  // Rows [begin, end) that fit the scratch memory at once.
  struct Chunk {
    std::int64_t begin, end;
  };
  void MixRows(const Tensor& x, const ExpertCall& call, Chunk chunk, Tensor& out);
  // One of the two products of all experts that `runs_` names.
  void MultiplyExperts(const ExpertCall& call, bool down, const Tensor& x, const Tensor& out);

  ProductThreads& products_;
  // Kept from call to call.
  std::vector<ExpertChoice> choices_;  // [rows, chosen]
  ExpertRuns runs_;
  std::vector<MatrixRun> matrices_;
};

}  // namespace banyan
