// For the tests of experts: a mixture of random ones on one backend. Tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/experts.h"
#include "kernels/stored_matrix_fixture.h"

namespace banyan::optest {

struct MixtureShape {
  int experts = 6, chosen = 2, hidden = 64, inner = 32;
  ExpertShares shares = ExpertShares::kOfChosen;
  ExpertGate gate;
  bool bias = false;
  float scale = 1.0f;
  ExpertNumbers numbers = {};
};

// Random experts of one layout, on one backend.
class Mixture {
 public:
  Mixture(Kernels& kernels, const BlockLayout& layout, const MixtureShape& shape)
      : kernels_(kernels), shape_(shape) {
    std::vector<ExpertWeights> experts;
    for (int e = 0; e < shape.experts; ++e) {
      const auto seed = static_cast<std::uint32_t>(100 + 2 * e);
      ExpertWeights expert;
      const auto load = [&](std::int64_t rows, std::int64_t columns, std::uint32_t which) {
        return kernels.ForProducts(Load(kernels, *RandomStored(layout, rows, columns, which)));
      };
      expert.gate_up = load(2 * shape.inner, shape.hidden, seed);
      expert.down = load(shape.hidden, shape.inner, seed + 1);
      if (shape.bias) {
        expert.gate_up_bias =
            kernels.LoadVector(RandomMatrix(1, 2 * shape.inner, seed + 200).values);
        expert.down_bias = kernels.LoadVector(RandomMatrix(1, shape.hidden, seed + 201).values);
      }
      experts.push_back(std::move(expert));
    }
    table_ = kernels.GatherExperts(std::move(experts), shape.numbers);
  }

  // x [rows, hidden], scores [rows, experts]; `chunk` rows at a time.
  HostMatrix Mix(const HostMatrix& x, const HostMatrix& scores, std::int64_t chunk = 512,
                 bool in_place = false) const {
    const std::int64_t slots = std::min(chunk, x.rows) * shape_.chosen;
    const ExpertScratch scratch{
        Poisoned(kernels_, slots, shape_.hidden), Poisoned(kernels_, slots, 2 * shape_.inner),
        Poisoned(kernels_, slots, shape_.inner), Poisoned(kernels_, slots, shape_.hidden)};
    const Tensor score_rows = Fill(kernels_, scores);
    const ExpertRule rule{shape_.chosen, shape_.shares, shape_.gate, shape_.scale};
    const Tensor in = Fill(kernels_, x);
    Tensor out = in_place ? in : Poisoned(kernels_, x.rows, x.columns);
    kernels_.MixExperts(in, {*table_, score_rows, rule, scratch}, out);
    return Read(kernels_, out);
  }

  const ExpertTable& table() const { return *table_; }

 private:
  Kernels& kernels_;
  MixtureShape shape_;
  std::shared_ptr<const ExpertTable> table_;
};

}  // namespace banyan::optest
