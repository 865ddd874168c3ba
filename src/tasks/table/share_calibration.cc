#include "tasks/table/share_calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace banyan {
namespace {

constexpr double kLeastOfFourDigits = 0.00005;  // what four digits round to nothing
constexpr double kPriorWeight = 0.1;
constexpr int kMostNewtonSteps = 100;

double LogShare(double share) { return std::log(std::max(share, kLeastOfFourDigits)); }

double LossOf(const ShareCalibration& at, std::span<const LabelledShares> rows) {
  double loss = 0.5 * kPriorWeight * ((at.scale - 1.0) * (at.scale - 1.0) + at.offset * at.offset);
  for (const LabelledShares& row : rows) loss -= std::log(at.Of(row.shares)[row.label]);
  return loss;
}

// One step of Newton's method, halved until the loss does not grow. False: it would not move.
bool NewtonStep(std::span<const LabelledShares> rows, bool with_scale, bool with_offset,
                ShareCalibration& at) {
  // Gradient and Hessian in scale and offset; the prior's own.
  double g0 = kPriorWeight * (at.scale - 1.0), g1 = kPriorWeight * at.offset;
  double h00 = kPriorWeight, h01 = 0.0, h11 = kPriorWeight;
  for (const LabelledShares& row : rows) {
    const std::vector<double> p = at.Of(row.shares);
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < p.size(); ++i) {
      mean += p[i] * LogShare(row.shares[i]);
      square += p[i] * LogShare(row.shares[i]) * LogShare(row.shares[i]);
    }
    g0 += mean - LogShare(row.shares[row.label]);
    g1 += p[0] - (row.label == 0 ? 1.0 : 0.0);
    h00 += square - mean * mean;
    h01 += p[0] * (LogShare(row.shares[0]) - mean);
    h11 += p[0] * (1.0 - p[0]);
  }
  if (!with_offset) g1 = h01 = 0.0;
  if (!with_scale) g0 = h01 = 0.0;
  const double det = h00 * h11 - h01 * h01;
  const double d0 = (h11 * g0 - h01 * g1) / det, d1 = (h00 * g1 - h01 * g0) / det;
  const double before = LossOf(at, rows);
  for (double share = 1.0; share > 1e-6; share /= 2.0) {
    const ShareCalibration next{at.scale - share * d0, at.offset - share * d1};
    if (LossOf(next, rows) >= before) continue;
    at = next;
    return std::abs(d0) + std::abs(d1) > 1e-9;
  }
  return false;
}

}  // namespace

ShareCalibration ShareCalibration::Fit(std::span<const LabelledShares> rows, bool with_offset) {
  ShareCalibration at;
  const auto fit = [&](bool with_scale) {
    for (int i = 0; i < kMostNewtonSteps; ++i) {
      if (!NewtonStep(rows, with_scale, with_offset, at)) break;
    }
  };
  fit(true);
  if (at.scale < 0.0) {
    at.scale = 0.0;
    fit(false);
  }
  return at;
}

std::vector<double> ShareCalibration::Of(std::span<const double> shares) const {
  std::vector<double> of;
  for (const double share : shares) of.push_back(scale * LogShare(share));
  of.front() += offset;
  const double best = *std::ranges::max_element(of);
  double sum = 0.0;
  for (double& one : of) sum += one = std::exp(one - best);
  for (double& one : of) one /= sum;
  return of;
}

double CalibrationError(std::span<const SaidProbability> said) {
  struct Bin {
    double said = 0.0, found = 0.0;
  };
  std::array<Bin, 10> bins;
  for (const auto& [probability, is_true] : said) {
    Bin& bin = bins[std::min<size_t>(9, static_cast<size_t>(10.0 * probability))];
    bin.said += probability;
    bin.found += is_true ? 1.0 : 0.0;
  }
  double error = 0.0;
  for (const Bin& bin : bins) error += std::abs(bin.said - bin.found);
  return said.empty() ? 0.0 : error / static_cast<double>(said.size());
}

}  // namespace banyan
