// The softmax's sum over a row of logits apart from the choice of a token, for backends that divide
// it among threads. NaN counts as minus infinity.
#pragma once

#include <span>

#include "kernels/sampling.h"

namespace banyan {

// Minus infinity where there is nothing above it.
float LargestLogit(std::span<const float> logits);

// log(sum(exp(logits))) in two parts, so that the difference to a logit loses nothing.
struct LogSumExp {
  float largest;
  double log_rest = 0.0;  // log(sum(exp(logits - largest))), a double sum in order; 0 if infinite

  explicit LogSumExp(std::span<const float> logits);
  // From values made elsewhere: the largest logit, and PowerOf every logit.
  LogSumExp(float largest_logit, std::span<const double> powers);

  static double PowerOf(float logit, float largest);
  // Log-softmax of one of the logits.
  float Logprob(float logit) const;
};

// SelectToken (sampling.h) where the row's sum is known.
TokenChoice SelectToken(std::span<const float> logits, const SamplingRow& request,
                        const LogSumExp& log_sum);

}  // namespace banyan
