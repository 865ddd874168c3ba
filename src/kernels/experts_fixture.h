// For the tests of experts: a mixture of random ones on one backend. Tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
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

inline const BlockLayout& LayoutOf(DType type) {
  return *std::ranges::find(Layouts(), type, &BlockLayout::type);
}

// Expert i is the best of counts[i] rows, here and there among all rows.
inline HostMatrix ScoresFor(const std::vector<int>& counts, std::uint32_t seed) {
  std::vector<int> best;
  for (size_t e = 0; e < counts.size(); ++e) {
    best.insert(best.end(), static_cast<size_t>(counts[e]), static_cast<int>(e));
  }
  std::ranges::shuffle(best, std::mt19937(seed));
  const auto rows = static_cast<std::int64_t>(best.size());
  HostMatrix scores = RandomMatrix(rows, static_cast<std::int64_t>(counts.size()), seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    scores.values[static_cast<size_t>(r * scores.columns + best[static_cast<size_t>(r)])] = 50.0f;
  }
  return scores;
}

// Experts i of which counts[i] rows choose one alone, with a share of 1: the bits of the dense
// products around a gate.
inline void ExpectBlocksLikeOthers(Kernels& kernels, const std::vector<int>& counts, int hidden,
                                   int inner) {
  const HostMatrix scores = ScoresFor(counts, 71);
  const int experts = static_cast<int>(counts.size());
  const MixtureShape shape{experts, 1, hidden, inner, ExpertShares::kOfChosen, {}, false};
  const Mixture mixture(kernels, LayoutOf(DType::kBF16), shape);
  const HostMatrix x = RandomMatrix(scores.rows, hidden, 72);
  const HostMatrix found = mixture.Mix(x, scores, scores.rows);
  for (int e = 0; e < experts; ++e) {
    const ExpertWeights& weights = mixture.table().experts[static_cast<size_t>(e)];
    Tensor halves = kernels.NewTensor(x.rows, 2 * inner);
    Tensor between = kernels.NewTensor(x.rows, inner);
    Tensor out = kernels.NewTensor(x.rows, hidden);
    kernels.MatMul(Fill(kernels, x), *weights.gate_up, nullptr, halves);
    kernels.Glu(Gate::kSilu, halves, between);
    kernels.MatMul(between, *weights.down, nullptr, out);
    const HostMatrix wanted = Read(kernels, out);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      if (scores.Row(r)[static_cast<size_t>(e)] != 50.0f) continue;
      ExpectSameBits(found.Row(r), wanted.Row(r),
                     std::to_string(hidden) + " x " + std::to_string(inner) + ", expert " +
                         std::to_string(e) + ", row " + std::to_string(r));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace banyan::optest
