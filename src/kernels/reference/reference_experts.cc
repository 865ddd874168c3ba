// A row at a time, an expert at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/reference/reference_network.h"

namespace banyan::reference {
namespace {

std::vector<double> Apply(const std::shared_ptr<const Matrix>& matrix,
                          const std::shared_ptr<const Vector>& bias, std::span<const double> x) {
  const FloatMatrix& w = AsFloats(*matrix);
  std::vector<double> out(static_cast<size_t>(w.rows), 0.0);
  for (size_t n = 0; n < out.size(); ++n) {
    const std::span<const float> weights = w.Row(static_cast<std::int64_t>(n));
    for (size_t k = 0; k < x.size(); ++k) out[n] += x[k] * weights[k];
    if (bias != nullptr) out[n] += AsFloats(*bias).values[n];
  }
  return out;
}

double Gated(const ExpertGate& gate, double g, double up) {
  if (gate.limit == 0.0f) return g / (1.0 + std::exp(-g)) * up;
  g = std::min(g, double{gate.limit});
  up = std::clamp(up, -double{gate.limit}, double{gate.limit});
  return (up + 1.0) * g / (1.0 + std::exp(-gate.slope * g));
}

}  // namespace

void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) {
  BANYAN_CHECK(x.rows == out.rows && x.columns == out.columns && call.scores.rows == x.rows);
  BANYAN_CHECK(static_cast<size_t>(call.scores.columns) == call.table.experts.size());
  std::vector<ExpertChoice> choices(static_cast<size_t>(call.rule.chosen));
  for (std::int64_t r = 0; r < x.rows; ++r) {
    ChooseExperts(Row(call.scores, r), call.rule.shares, choices);
    const std::span<const float> input = Row(x, r);
    const std::vector<double> values(input.begin(), input.end());
    std::vector<double> sum(values.size(), 0.0);
    for (const ExpertChoice& choice : choices) {
      const ExpertWeights& expert = call.table.experts[static_cast<size_t>(choice.expert)];
      const std::vector<double> halves = Apply(expert.gate_up, expert.gate_up_bias, values);
      std::vector<double> inner(halves.size() / 2);
      for (size_t i = 0; i < inner.size(); ++i) {
        inner[i] = Gated(call.rule.gate, halves[i], halves[inner.size() + i]);
      }
      const std::vector<double> part = Apply(expert.down, expert.down_bias, inner);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{choice.share} * part[i];
    }
    std::ranges::transform(sum, Row(out, r).begin(),
                           [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace banyan::reference
