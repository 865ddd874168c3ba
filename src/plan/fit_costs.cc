#include "plan/fit_costs.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace banyan {
namespace {

constexpr double kExpectation = 0.05;  // how much one counts beside a measurement
constexpr int kSweeps = 20000;         // few milliseconds

// Each asks that the sum over terms of factor * x be `right`.
struct Equation {
  CostTerms factors{};
  double right = 1.0;
};
using Equations = std::vector<Equation>;

// One unknown after the other as the others ask for it, never below 0, until nothing moves.
CostTerms Solve(const Equations& equations) {
  CostTerms x{}, squares{};
  std::vector<double> missing;
  for (const Equation& equation : equations) {
    missing.push_back(equation.right);
    for (std::size_t i = 0; i < x.size(); ++i) {
      squares[i] += equation.factors[i] * equation.factors[i];
    }
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (squares[i] == 0.0) continue;
      double wish = 0.0;
      for (std::size_t e = 0; e < equations.size(); ++e) {
        wish += equations[e].factors[i] * missing[e];
      }
      const double next = std::max(0.0, x[i] + wish / squares[i]);
      const double step = next - x[i];
      if (step == 0.0) continue;
      for (std::size_t e = 0; e < equations.size(); ++e) {
        missing[e] -= equations[e].factors[i] * step;
      }
      x[i] = next;
      moved = std::max(moved, std::abs(step) * std::sqrt(squares[i]));
    }
    if (moved < 1e-9) break;
  }
  return x;
}

}  // namespace

AttentionCosts FitCosts(const AttentionCosts& expected, std::span<const MeasuredReading> measured) {
  Equations equations;
  for (const MeasuredReading& reading : measured) {
    Equation& equation = equations.emplace_back();
    equation.factors = TermsOf(expected.form, reading.counts);
    for (double& factor : equation.factors) factor /= reading.seconds;
  }
  for (std::size_t i = 0; i < expected.seconds.size(); ++i) {
    if (expected.seconds[i] <= 0.0) continue;
    Equation& equation = equations.emplace_back();
    equation.factors[i] = kExpectation / expected.seconds[i];
    equation.right = kExpectation;
  }
  return {expected.form, Solve(equations)};
}

double WorstError(const AttentionCosts& costs, std::span<const MeasuredReading> measured) {
  double worst = 0.0;
  for (const MeasuredReading& reading : measured) {
    const double predicted = SecondsOf(costs, reading.counts);
    worst = std::max(worst, std::abs(predicted / reading.seconds - 1.0));
  }
  return worst;
}

}  // namespace banyan
