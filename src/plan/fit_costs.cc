#include "plan/fit_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace banyan {
namespace {

using Row = std::vector<double>;  // factors of the unknowns, then the right side

// Solves the equations by elimination with pivots. Unknowns that nothing determines become 0.
std::vector<double> Solve(std::vector<Row> rows) {
  const std::size_t count = rows.size();
  std::vector<double> result(count, 0.0);
  std::vector<bool> free(count, false);
  for (std::size_t column = 0; column < count; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column; row < count; ++row) {
      if (std::abs(rows[row][column]) > std::abs(rows[pivot][column])) pivot = row;
    }
    std::swap(rows[column], rows[pivot]);
    if (std::abs(rows[column][column]) < 1e-12) {
      free[column] = true;
      continue;
    }
    for (std::size_t row = 0; row < count; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (std::size_t i = column; i <= count; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!free[i]) result[i] = rows[i][count] / rows[i][i];
  }
  return result;
}

}  // namespace

AttentionCosts FitCosts(const ReadingForm& form, std::span<const MeasuredReading> measured) {
  AttentionCosts costs{.form = form};
  // Every equation is divided by its time, and every unknown by its largest factor: all numbers are
  // then about 1.
  std::vector<CostTerms> equations;
  CostTerms scale{};
  for (const MeasuredReading& reading : measured) {
    CostTerms& terms = equations.emplace_back(TermsOf(form, reading.counts));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      terms[i] /= reading.seconds;
      scale[i] = std::max(scale[i], terms[i]);
    }
  }
  std::vector<std::size_t> terms;
  for (std::size_t i = 0; i < scale.size(); ++i) {
    if (scale[i] > 0.0) terms.push_back(i);
  }
  for (;;) {
    std::vector<Row> normal(terms.size(), Row(terms.size() + 1, 0.0));
    for (const CostTerms& equation : equations) {
      for (std::size_t a = 0; a < terms.size(); ++a) {
        const double left = equation[terms[a]] / scale[terms[a]];
        for (std::size_t b = 0; b < terms.size(); ++b) {
          normal[a][b] += left * equation[terms[b]] / scale[terms[b]];
        }
        normal[a].back() += left;
      }
    }
    const std::vector<double> found = Solve(std::move(normal));
    const auto least = std::min_element(found.begin(), found.end());
    if (least == found.end() || *least >= 0.0) {
      for (std::size_t i = 0; i < terms.size(); ++i) {
        costs.seconds[terms[i]] = found[i] / scale[terms[i]];
      }
      return costs;
    }
    terms.erase(terms.begin() + (least - found.begin()));
  }
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
