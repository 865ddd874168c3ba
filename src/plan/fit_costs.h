// The factors of AttentionCosts that explain measured times best.
#pragma once

#include <span>

#include "plan/attention_costs.h"

namespace banyan {

struct MeasuredReading {
  ReadingCounts counts;
  double seconds = 0.0;  // > 0
};

// Least squares of relative errors; no factor is negative. What the measurements leave open stays
// near `expected`, whose form they have; a factor that is 0 there is not expected to be anything.
AttentionCosts FitCosts(const AttentionCosts& expected, std::span<const MeasuredReading> measured);

// The largest |predicted / measured - 1|.
double WorstError(const AttentionCosts& costs, std::span<const MeasuredReading> measured);

}  // namespace banyan
