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
  // The two parts of it, for rows that fit the scratch at once: the inner values of slots, and from
  // these the rows. As Kernels::ExpertInner and ExpertOutputs.
  void Inner(const Tensor& x, const ExpertCall& call, ExpertRows rows, const Tensor& inner);
  void Outputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner, Tensor& out);

 private:
  // One of the two products of all experts that `runs_` names.
  void MultiplyExperts(const ExpertCall& call, bool down, const Tensor& x, const Tensor& out);

  ProductThreads& products_;
  // Kept from call to call.
  std::vector<ExpertChoice> choices_;  // [rows, chosen]
  ExpertRuns runs_;
  std::vector<MatrixRun> matrices_;
};

}  // namespace banyan
