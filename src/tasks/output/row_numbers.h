// Log-probabilities of an answer's tokens, and numbers as rows have them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace banyan {

double SumOf(const std::vector<float>& values);
double MeanOf(const std::vector<float>& values);  // of none: 0

// The decimals that read back as the same float32; JSON has no infinities.
Json RowNumber(double value);
Json RowNumbers(const std::vector<float>& values);
// Four decimals: more than a probability that was fitted means.
Json RowProbability(double value);

}  // namespace banyan
