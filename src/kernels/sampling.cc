#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace banyan {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A token that may be drawn, with its unnormalised probability.
struct Candidate {
  TokenId token = 0;
  double weight = 0.0;
};

bool IsAllowed(std::span<const std::uint32_t> allowed, size_t token) {
  const size_t word = token / 32;
  return word < allowed.size() && ((allowed[word] >> (token % 32)) & 1u) != 0;
}

// The logits after repetition penalty (as in Transformers: positive ones divided, others
// multiplied) and mask, NaN replaced.
std::vector<float> AdjustedLogits(std::span<const float> logits, const SamplingRow& request) {
  std::vector<float> adjusted(logits.begin(), logits.end());
  if (request.repetition_penalty != 1.0f) {
    for (const TokenId token : request.history) {
      if (token < 0 || static_cast<size_t>(token) >= logits.size()) {
        Throw(ErrorKind::kInput, "repetition penalty: token {} is outside the vocabulary of {}",
              token, logits.size());
      }
      // From the raw logit: a repeated token is penalised once.
      const float raw = logits[token];
      adjusted[token] =
          raw < 0.0f ? raw * request.repetition_penalty : raw / request.repetition_penalty;
    }
  }
  for (size_t t = 0; t < adjusted.size(); ++t) {
    const bool masked = !request.allowed.empty() && !IsAllowed(request.allowed, t);
    if (masked || std::isnan(adjusted[t])) adjusted[t] = kNever;
  }
  return adjusted;
}

// Orders token ids by descending value, equal values by ascending id.
struct ByValueThenId {
  std::span<const float> values;
  bool operator()(TokenId a, TokenId b) const {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  }
};

// The `limit` best tokens of those above minus infinity, best first.
std::vector<TokenId> BestTokens(std::span<const float> values, size_t limit) {
  std::vector<TokenId> tokens;
  for (size_t t = 0; t < values.size(); ++t) {
    if (values[t] > kNever) tokens.push_back(static_cast<TokenId>(t));
  }
  const size_t kept = std::min(limit, tokens.size());
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept),
                    tokens.end(), ByValueThenId{values});
  tokens.resize(kept);
  return tokens;
}

double TotalWeight(std::span<const Candidate> candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.weight; });
}

void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  const double wanted = top_p * TotalWeight(candidates);
  double sum = 0.0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || sum < wanted)) sum += candidates[kept++].weight;
  candidates.resize(kept);
}

void KeepMinP(double min_p, std::vector<Candidate>& candidates) {
  const double least = std::min(min_p, 1.0) * candidates.front().weight;
  size_t kept = 1;
  while (kept < candidates.size() && candidates[kept].weight >= least) ++kept;
  candidates.resize(kept);
}

TokenId Draw(std::span<const float> adjusted, const SamplingRow& request) {
  const size_t limit =
      request.top_k > 0 ? static_cast<size_t>(request.top_k) : std::numeric_limits<size_t>::max();
  const std::vector<TokenId> tokens = BestTokens(adjusted, limit);
  const float best = adjusted[tokens.front()];
  std::vector<Candidate> candidates;
  for (const TokenId token : tokens) {
    // Equal logits have equal weight even where both are infinite.
    const double below =
        adjusted[token] == best ? 0.0 : static_cast<double>(adjusted[token]) - best;
    candidates.push_back({token, std::exp(below / request.temperature)});
  }
  if (request.top_p < 1.0f) KeepTopP(request.top_p, candidates);
  if (request.min_p > 0.0f) KeepMinP(request.min_p, candidates);

  const double target = request.uniform * TotalWeight(candidates);
  double sum = 0.0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
    if (sum > target) return candidate.token;
  }
  return candidates.back().token;
}

TokenId Greedy(std::span<const float> adjusted) {
  return static_cast<TokenId>(std::max_element(adjusted.begin(), adjusted.end()) -
                              adjusted.begin());
}

// Whether the choice is that of the largest logit as it is.
bool TakesLargest(const SamplingRow& request) {
  return request.temperature <= 0.0f && request.repetition_penalty == 1.0f &&
         request.allowed.empty();
}

TokenChoice NoToken() {
  TokenChoice choice;
  choice.token = kNoToken;
  return choice;
}

TokenChoice ScoredChoice(std::span<const float> logits, const LogSumExp& log_sum, TokenId chosen,
                         int top_logprobs) {
  TokenChoice choice;
  choice.token = chosen;
  choice.logprob = log_sum.Logprob(logits[chosen]);
  if (top_logprobs > 0) {
    for (const TokenId token : BestTokens(logits, static_cast<size_t>(top_logprobs))) {
      choice.top.push_back({token, log_sum.Logprob(logits[token])});
    }
  }
  return choice;
}

// Minus infinity where nothing is above it.
float LargestLogit(std::span<const float> logits) {
  float largest = kNever;
  for (const float x : logits) {
    if (x > largest) largest = x;
  }
  return largest;
}

}  // namespace

LogSumExp::LogSumExp(std::span<const float> logits) : largest(LargestLogit(logits)) {
  if (std::isinf(largest)) return;
  double sum = 0.0;
  for (const float x : logits) sum += PowerOf(x, largest);
  log_rest = std::log(sum);
}

LogSumExp::LogSumExp(float largest_logit, std::span<const double> powers) : largest(largest_logit) {
  if (std::isinf(largest)) return;
  log_rest = std::log(std::accumulate(powers.begin(), powers.end(), 0.0));
}

double LogSumExp::PowerOf(float logit, float largest) {
  return std::isnan(logit) ? 0.0 : std::exp(static_cast<double>(logit) - largest);
}

float LogSumExp::Logprob(float logit) const {
  if (std::isnan(logit)) return kNever;
  if (std::isinf(largest)) return logit == largest ? 0.0f : kNever;
  return static_cast<float>((static_cast<double>(logit) - largest) - log_rest);
}

TokenChoice SelectToken(std::span<const float> logits, const SamplingRow& request) {
  return SelectToken(logits, request, LogSumExp(logits));
}

TokenChoice SelectToken(std::span<const float> logits, const SamplingRow& request,
                        const LogSumExp& log_sum) {
  BANYAN_CHECK(request.uniform >= 0.0 && request.uniform < 1.0);
  if (request.forced >= 0) {
    BANYAN_CHECK(static_cast<size_t>(request.forced) < logits.size());
    return ScoredChoice(logits, log_sum, request.forced, request.top_logprobs);
  }
  if (TakesLargest(request)) {
    if (log_sum.largest == kNever) return NoToken();
    const auto first = std::find(logits.begin(), logits.end(), log_sum.largest);
    const auto token = static_cast<TokenId>(first - logits.begin());
    return ScoredChoice(logits, log_sum, token, request.top_logprobs);
  }
  const std::vector<float> adjusted = AdjustedLogits(logits, request);
  if (std::all_of(adjusted.begin(), adjusted.end(), [](float x) { return x == kNever; })) {
    return NoToken();
  }
  const TokenId token = request.temperature > 0.0f ? Draw(adjusted, request) : Greedy(adjusted);
  return ScoredChoice(logits, log_sum, token, request.top_logprobs);
}

}  // namespace banyan
