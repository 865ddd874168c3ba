// Sampling requests and the tokens chosen for them. Greedy unless temperature > 0. The functions
// are for backends whose logits are in host memory; a device backend has its own and is tested
// against these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// One row's request. Order of operations: repetition penalty, mask, then greedy (ties take the
// lowest id); or temperature, top-k, top-p, min-p, draw.
struct SamplingRow {
  std::int32_t row = 0;                    // of the logits; several requests may share one
  std::int32_t panel = -1;                 // >= 0: of that panel's fused logits instead
  float temperature = 0.0f;                // 0 = greedy
  int top_k = 0;                           // 0 = off
  float top_p = 1.0f;                      // 1 = off
  float min_p = 0.0f;                      // 0 = off
  float repetition_penalty = 1.0f;         // 1 = off; > 1 makes the tokens of `history` less likely
  double uniform = 0.0;                    // in [0, 1): the draw, made by the caller from its key
  int top_logprobs = 0;                    // how many alternatives to report
  std::span<const TokenId> history;        // tokens that are penalised; repeats count once
  std::span<const std::uint32_t> allowed;  // bit t set = token t allowed; empty = all
  TokenId forced = -1;                     // >= 0: take this token, whatever the rest says
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0f;
};

inline constexpr TokenId kNoToken = -1;

struct TokenChoice {
  TokenId token = 0;              // kNoToken: none that is allowed has a logit above -infinity
  float logprob = 0.0f;           // log-softmax of the raw logits
  std::vector<TokenLogprob> top;  // the most likely tokens by raw logits, best first
  // Of a panel: the expert that won the token, and the measured values of every expert.
  std::int32_t expert = -1;
  std::vector<double> betas;
  std::vector<double> abstentions;
};

// The choice for one row of logits [vocabulary], a function of its arguments alone. NaN counts as
// minus infinity, which is never chosen; tokens beyond the words of a mask are not allowed.
// top-k takes exactly k tokens (ties by id); top-p the shortest run of the most likely tokens whose
// share of what top-k left reaches top_p; min-p what has at least min_p of the best one's
// probability. Throws kInput when `history` names a token outside the row.
TokenChoice SelectToken(std::span<const float> logits, const SamplingRow& request);

// log(sum(exp(logits))) in two parts, so that the difference to a logit loses no precision. NaN
// counts as minus infinity. Backends may divide the sum among threads.
struct LogSumExp {
  float largest;
  double log_rest = 0.0;  // log(sum(exp(logits - largest))), a double sum in order; 0 if infinite

  explicit LogSumExp(std::span<const float> logits);
  // From values computed elsewhere: the largest logit, and PowerOf every logit.
  LogSumExp(float largest_logit, std::span<const double> powers);

  static double PowerOf(float logit, float largest);
  // Log-softmax of one of the logits.
  float Logprob(float logit) const;
};

// The same where the row's sum is known.
TokenChoice SelectToken(std::span<const float> logits, const SamplingRow& request,
                        const LogSumExp& log_sum);

}  // namespace banyan
