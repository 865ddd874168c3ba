// Quantiles in logarithmic bins.
#include "base/timing.h"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

constexpr double kLeast = 1e-6;
constexpr double kWidth = 1.05;

}  // namespace

void Quantiles::Add(double value) {
  const double place = std::ceil(std::log(std::max(value, kLeast) / kLeast) / std::log(kWidth));
  ++bins_[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)))];
  ++count_;
}

void Quantiles::Add(const Quantiles& others) {
  for (size_t bin = 0; bin < bins_.size(); ++bin) bins_[bin] += others.bins_[bin];
  count_ += others.count_;
}

double Quantiles::At(double q) const {
  const double wanted = q * static_cast<double>(count_);
  std::int64_t seen = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    seen += bins_[static_cast<size_t>(bin)];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return kLeast * std::pow(kWidth, bin);
  }
  return 0.0;
}

}  // namespace banyan
