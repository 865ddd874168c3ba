#include "kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace banyan {
namespace {

// NaN as the lowest of all.
double ScoreOf(float score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : double{score};
}

// The best experts by `key`, a function of an expert's number, best first; of equal ones the lower.
void TakeBest(size_t experts, const auto& key, std::span<ExpertChoice> choices) {
  const auto key_at = [&](size_t at) { return key(static_cast<size_t>(choices[at].expert)); };
  // Insertion into a short list that is ordered, best first.
  size_t count = 0;
  for (size_t e = 0; e < experts; ++e) {
    const double own = key(e);
    if (count == choices.size() && !(own > key_at(count - 1))) continue;
    if (count < choices.size()) ++count;
    size_t at = count - 1;
    while (at > 0 && own > key_at(at - 1)) {
      choices[at] = choices[at - 1];
      --at;
    }
    choices[at].expert = static_cast<std::int32_t>(e);
  }
}

void ChooseByLogistic(std::span<const float> scores, const ExpertRule& rule,
                      std::span<const float> biases, std::span<ExpertChoice> choices) {
  const auto logistic = [&](size_t e) { return 1.0 / (1.0 + std::exp(-ScoreOf(scores[e]))); };
  BANYAN_CHECK(biases.empty() || biases.size() == scores.size());
  TakeBest(
      scores.size(), [&](size_t e) { return logistic(e) + (biases.empty() ? 0.0 : biases[e]); },
      choices);
  double sum = 1.0;
  if (rule.shares == ExpertShares::kLogisticOfChosen) {
    sum = kLogisticEps;
    for (const ExpertChoice& choice : choices) sum += logistic(static_cast<size_t>(choice.expert));
  }
  for (ExpertChoice& choice : choices) {
    const double share = logistic(static_cast<size_t>(choice.expert)) / sum;
    choice.share = static_cast<float>(share * rule.scale);
  }
  std::ranges::sort(choices, {}, &ExpertChoice::expert);
}

}  // namespace

void ChooseExperts(std::span<const float> scores, ExpertShares shares,
                   std::span<ExpertChoice> choices) {
  BANYAN_CHECK(!choices.empty() && choices.size() <= scores.size());
  TakeBest(
      scores.size(), [&](size_t e) { return ScoreOf(scores[e]); }, choices);
  const double largest = ScoreOf(scores[static_cast<size_t>(choices.front().expert)]);
  const auto power = [&](float score) {
    const double value = ScoreOf(score);
    return value == largest ? 1.0 : std::exp(value - largest);
  };
  double sum = 0.0;
  if (shares == ExpertShares::kOfAll) {
    for (const float score : scores) sum += power(score);
  } else {
    for (const ExpertChoice& choice : choices) {
      sum += power(scores[static_cast<size_t>(choice.expert)]);
    }
  }
  for (ExpertChoice& choice : choices) {
    choice.share = static_cast<float>(power(scores[static_cast<size_t>(choice.expert)]) / sum);
  }
  std::ranges::sort(choices, {}, &ExpertChoice::expert);
}

void ChooseExperts(std::span<const float> scores, const ExpertRule& rule,
                   const ExpertNumbers& numbers, std::span<ExpertChoice> choices) {
  const bool logistic =
      rule.shares == ExpertShares::kLogistic || rule.shares == ExpertShares::kLogisticOfChosen;
  if (logistic) {
    ChooseByLogistic(scores, rule, numbers.choice_biases, choices);
  } else {
    ChooseExperts(scores, rule.shares, choices);
  }
  if (numbers.share_scales.empty()) return;
  for (ExpertChoice& choice : choices) {
    choice.share *= numbers.share_scales[static_cast<size_t>(choice.expert)];
  }
}

void ExpertRuns::Assign(std::span<const ExpertChoice> choices, int chosen, int experts) {
  BANYAN_CHECK(chosen > 0 && choices.size() % static_cast<size_t>(chosen) == 0);
  runs.clear();
  row.resize(choices.size());
  place.resize(choices.size());
  std::vector<std::int32_t> next(static_cast<size_t>(experts) + 1, 0);  // slot of each expert
  for (const ExpertChoice& choice : choices) ++next[static_cast<size_t>(choice.expert) + 1];
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
    const std::int32_t begin = next[e];
    next[e + 1] += begin;
    if (next[e + 1] > begin) runs.push_back({static_cast<std::int32_t>(e), begin, next[e + 1]});
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    const std::int32_t slot = next[static_cast<size_t>(choices[i].expert)]++;
    row[static_cast<size_t>(slot)] = static_cast<std::int32_t>(i / static_cast<size_t>(chosen));
    place[i] = slot;
  }
}

// (up + 1) * g * sigmoid(slope g) = silu(slope g) * (up + 1) / slope.
void PrepareExpertGate(const ExpertGate& gate, std::span<float> halves) {
  const size_t n = halves.size() / 2;
  const float limit = gate.limit, slope = gate.slope;
  for (size_t i = 0; i < n; ++i) halves[i] = slope * std::min(halves[i], limit);
  for (size_t i = n; i < 2 * n; ++i) {
    halves[i] = (std::clamp(halves[i], -limit, limit) + 1.0f) / slope;
  }
}

}  // namespace banyan
