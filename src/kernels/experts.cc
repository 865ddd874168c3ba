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

}  // namespace

void ChooseExperts(std::span<const float> scores, ExpertShares shares,
                   std::span<ExpertChoice> choices) {
  BANYAN_CHECK(!choices.empty() && choices.size() <= scores.size());
  // Insertion into a short list that is ordered by score, best first.
  size_t count = 0;
  for (size_t e = 0; e < scores.size(); ++e) {
    const double score = ScoreOf(scores[e]);
    if (count == choices.size() &&
        !(score > ScoreOf(scores[static_cast<size_t>(choices[count - 1].expert)]))) {
      continue;
    }
    if (count < choices.size()) ++count;
    size_t at = count - 1;
    while (at > 0 && score > ScoreOf(scores[static_cast<size_t>(choices[at - 1].expert)])) {
      choices[at] = choices[at - 1];
      --at;
    }
    choices[at].expert = static_cast<std::int32_t>(e);
  }
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

void ChooseExperts(std::span<const float> scores, const ExpertCall& call,
                   std::span<ExpertChoice> choices) {
  ChooseExperts(scores, call.rule.shares, choices);
  if (call.share_scales.empty()) return;
  for (ExpertChoice& choice : choices) {
    choice.share *= call.share_scales[static_cast<size_t>(choice.expert)];
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
