#include "tasks/output/row_numbers.h"

#include <fmt/format.h>

#include <cmath>

namespace banyan {

double SumOf(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += value;
  return sum;
}

double MeanOf(const std::vector<float>& values) {
  return values.empty() ? 0.0 : SumOf(values) / static_cast<double>(values.size());
}

Json RowNumber(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{}", static_cast<float>(value)));
}

Json RowNumbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(RowNumber(value));
  return list;
}

Json RowProbability(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e4) / 1e4;
}

}  // namespace banyan
