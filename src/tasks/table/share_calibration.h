// From the shares that a model gives its options to probabilities, by rows whose right option is
// known: p' is in proportion to exp(scale ln(p) + offset), the offset the first option's alone and
// only where it is wanted (Platt's method for two options, a temperature for more). The order of
// the options that have no offset stays.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace banyan {

struct LabelledShares {
  std::vector<double> shares;  // of the options; of 0 and 1 what a row's four digits can tell
  size_t label = 0;            // the right one
};

struct ShareCalibration {
  double scale = 1.0, offset = 0.0;

  // The most probable one for the rows, with a weak prior for what the model says. A
  // scale below 0, where the model is wrong more often than right, is 0 instead.
  static ShareCalibration Fit(std::span<const LabelledShares> rows, bool with_offset);
  std::vector<double> Of(std::span<const double> shares) const;
};

// The expected calibration error of a probability: by ten bins of equal width, how far the share of
// true ones is from the mean of what was said.
struct SaidProbability {
  double probability = 0.0;
  bool is_true = false;
};
double CalibrationError(std::span<const SaidProbability> said);

}  // namespace banyan
