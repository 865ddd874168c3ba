#include "propose/choose.h"

#include <algorithm>
#include <optional>

namespace banyan {
namespace {

struct TakenPlace {
  TextSpan place;
  bool labelled = false;
};
using TakenPlaces = std::vector<std::vector<TakenPlace>>;  // [documents]

std::int64_t LengthOf(const TextSpan& span) { return span.end - span.start; }

bool IsTaken(const SampleValue& value, const std::vector<TakenPlace>& taken) {
  std::int64_t covered = 0;
  for (const TakenPlace& other : taken) {
    const std::int64_t common =
        std::min(value.place.end, other.place.end) - std::max(value.place.start, other.place.start);
    if (common <= 0 || (other.labelled && common * 2 < LengthOf(other.place))) continue;
    covered += common;
  }
  return covered * 2 >= LengthOf(value.place);
}

void DropTaken(AttributeCandidate& candidate, const TakenPlaces& taken) {
  for (size_t d = 0; d < candidate.values.size(); ++d) {
    std::optional<SampleValue>& value = candidate.values[d];
    if (value && IsTaken(*value, taken[d])) value.reset();
  }
}

// The sum of confidences, weighted; nothing when the candidate does not stand.
std::optional<double> ScoreOf(const AttributeCandidate& candidate, const ChoiceRules& rules) {
  double sum = 0.0;
  size_t values = 0, sure = 0;
  for (const std::optional<SampleValue>& value : candidate.values) {
    if (!value) continue;
    sum += value->confidence;
    ++values;
    sure += value->confidence >= rules.sure ? 1 : 0;
  }
  if (values == 0) return std::nullopt;
  sum *= candidate.weight;
  if (candidate.given) return sum;
  if (sure < rules.least_documents || sum < rules.mean * static_cast<double>(values)) {
    return std::nullopt;
  }
  return sum;
}

// What a person asked for comes first.
bool Precedes(const AttributeCandidate& a, double score_a, const AttributeCandidate& b,
              double score_b) {
  return a.given != b.given ? a.given : score_a > score_b;
}

void Take(const AttributeCandidate& candidate, TakenPlaces& taken) {
  for (size_t d = 0; d < candidate.values.size(); ++d) {
    const std::optional<SampleValue>& value = candidate.values[d];
    if (!value) continue;
    taken[d].push_back({value->place, value->labelled});
  }
}

}  // namespace

std::vector<AttributeCandidate> ChooseAttributes(std::vector<AttributeCandidate> candidates,
                                                 const ChoiceRules& rules) {
  size_t documents = 0;
  for (AttributeCandidate& candidate : candidates) {
    documents = std::max(documents, candidate.values.size());
    for (std::optional<SampleValue>& value : candidate.values) {
      if (value && !value->labelled && !LooksLike(candidate.expected, value->text)) value.reset();
    }
  }
  TakenPlaces taken(documents);
  std::vector<std::pair<size_t, AttributeCandidate>> chosen;  // with the candidate's place
  std::vector<bool> out(candidates.size());
  while (chosen.size() < rules.most_attributes) {
    std::optional<size_t> best;
    double best_score = 0.0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (out[i]) continue;
      DropTaken(candidates[i], taken);
      const std::optional<double> score = ScoreOf(candidates[i], rules);
      if (!score) {
        out[i] = true;  // values only get fewer
      } else if (!best || Precedes(candidates[i], *score, candidates[*best], best_score)) {
        best = i;
        best_score = *score;
      }
    }
    if (!best) break;
    out[*best] = true;
    AttributeCandidate& winner = candidates[*best];
    for (std::optional<SampleValue>& value : winner.values) {
      if (value && value->confidence < rules.kept && !winner.given) value.reset();
    }
    Take(winner, taken);
    chosen.emplace_back(*best, std::move(winner));
  }
  std::ranges::sort(chosen, [](const auto& a, const auto& b) {
    const size_t of_a = a.second.coverage(), of_b = b.second.coverage();
    return of_a != of_b ? of_a > of_b : a.first < b.first;
  });
  std::vector<AttributeCandidate> attributes;
  for (auto& [place, attribute] : chosen) attributes.push_back(std::move(attribute));
  return attributes;
}

}  // namespace banyan
