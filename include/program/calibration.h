// Whether confidences mean what they say: of the values with confidence 0.8, are 80 % right?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

struct ConfidencePoint {
  double confidence = 0.0;  // a probability
  bool right = false;
};

// Values of similar confidence.
struct ReliabilityBin {
  std::int64_t count = 0;
  double low = 0.0, high = 0.0;  // the least and the greatest confidence
  double confidence = 0.0;       // their mean
  double accuracy = 0.0;         // the share of them that is right
};

struct Reliability {
  std::int64_t count = 0;
  // Expected calibration error: |confidence − accuracy| of the bins, weighted by their counts.
  double expected_error = 0.0;
  double brier = 0.0;                // the mean of (confidence − right)²
  std::vector<ReliabilityBin> bins;  // by confidence, ascending
};

// Bins have the same count, give or take one; fewer than `bins` where there are fewer points.
Reliability Calibrate(std::vector<ConfidencePoint> points, int bins = 10);

std::string CalibrationText(const Reliability& calibration);  // a table
// A reliability diagram, without scripts or fonts of its own.
std::string ReliabilitySvg(const Reliability& calibration, const std::string& title);

}  // namespace banyan
