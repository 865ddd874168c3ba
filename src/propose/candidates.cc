// Groups labels into candidates, then chooses attributes greedily.
#include "propose/candidates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "values/value_text.h"

namespace banyan {

namespace {

// All spellings of one label.
struct LabelGroup {
  std::string key;
  std::map<std::string, size_t> spellings;        // in how many documents
  std::map<size_t, const FoundLabel*> documents;  // the first in each

  const std::string& name() const {
    return std::ranges::max_element(
               spellings, [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }
  bool Meets(const LabelGroup& other) const {
    return std::ranges::any_of(
        documents, [&](const auto& own) { return other.documents.contains(own.first); });
  }
};

// Without brackets and a final point; capitals of a headline become lower case.
std::string NameOfLabel(const std::string& label) {
  std::string name = PlainText(label.substr(0, label.find('(')));
  while (!name.empty() && (name.back() == '.' || name.back() == '#')) name.pop_back();
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.size() > 4 && std::ranges::none_of(name, is_lower)) {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return PlainText(name);
}

// Whether the label names a code: a number that is an identifier, not a quantity.
bool IsCodeKey(std::string_view key) {
  constexpr std::string_view kCodes =
      "number id code phone mobile fax zip postcode plz iban bic ref reference sku ean isbn "
      "account vin gtin mpn";
  const std::string_view last = key.substr(key.rfind(' ') + 1);
  return ListHasWord(kCodes, last);
}

std::vector<LabelGroup> GroupLabels(const std::vector<std::vector<FoundLabel>>& labels) {
  std::map<std::string, LabelGroup> groups;
  for (size_t d = 0; d < labels.size(); ++d) {
    for (const FoundLabel& label : labels[d]) {
      const std::string name = NameOfLabel(label.name);
      const std::string key = LabelKey(name);
      if (key.empty()) continue;
      LabelGroup& group = groups[key];
      group.key = key;
      if (group.documents.emplace(d, &label).second) ++group.spellings[name];
    }
  }
  std::vector<LabelGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::ranges::stable_sort(sorted, [](const LabelGroup& a, const LabelGroup& b) {
    return a.documents.size() > b.documents.size();
  });
  return sorted;
}

class CandidateMaker {
 public:
  explicit CandidateMaker(const CandidateRequest& request)
      : request_(request), groups_(GroupLabels(request.labels)) {}

  std::vector<AttributeCandidate> Make() {
    for (const std::string& name : request_.names) {
      const std::string key = LabelKey(name);
      const LexiconEntry* entry = FindEntry(request_.kinds, key);
      LabelGroup own;
      for (LabelGroup& group : groups_) {
        if (group.key == key) own = std::move(group), group = {};
      }
      if (AttributeCandidate* made = Add(name, entry, own)) made->given = true;
    }
    AddLabels();
    for (const LexiconKind* kind : request_.kinds) {
      for (const LexiconEntry& entry : kind->entries) {
        if (!used_.contains(&entry)) Add(std::string(entry.name), &entry, {});
      }
    }
    return std::move(candidates_);
  }

 private:
  // Null when a candidate has this name already, or there are kMostCandidates.
  AttributeCandidate* Add(const std::string& name, const LexiconEntry* entry,
                          const LabelGroup& group) {
    const std::string key = LabelKey(name);
    if (key.empty() || candidates_.size() >= kMostCandidates || !keys_.insert(key).second) {
      return nullptr;
    }
    AttributeCandidate& candidate = candidates_.emplace_back();
    candidate.name = name;
    if (entry != nullptr) {
      used_.insert(entry);
      candidate.expected = entry->expected;
      candidate.weight = entry->weight;
    } else if (IsCodeKey(key)) {
      candidate.expected = Expected::kCode;
    }
    candidate.label_documents = group.documents.size();
    candidate.values.resize(request_.labels.size());
    for (const auto& [document, label] : group.documents) {
      candidate.values[document] = SampleValue{label->value, 1.0, label->place, true};
    }
    return &candidate;
  }

  void AddLabels() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      LabelGroup group = groups_[g];
      if (group.documents.empty()) continue;
      const LexiconEntry* entry = FindEntry(request_.kinds, group.key);
      const bool alone = group.documents.size() >= request_.least_documents;
      for (size_t other = g + 1; entry != nullptr && other < groups_.size(); ++other) {
        LabelGroup& more = groups_[other];
        if (more.documents.empty() || FindEntry(request_.kinds, more.key) != entry ||
            group.Meets(more)) {
          continue;
        }
        group.documents.merge(more.documents);
        more = {};
      }
      if (group.documents.size() < request_.least_documents) continue;
      Add(alone ? group.name() : std::string(entry->name), entry, group);
    }
  }

  const CandidateRequest& request_;
  std::vector<LabelGroup> groups_;  // most frequent first
  std::vector<AttributeCandidate> candidates_;
  std::set<std::string> keys_;
  std::set<const LexiconEntry*> used_;
};

}  // namespace

size_t AttributeCandidate::coverage() const {
  return static_cast<size_t>(
      std::ranges::count_if(values, [](const auto& value) { return value.has_value(); }));
}

std::vector<AttributeCandidate> MakeCandidates(const CandidateRequest& request) {
  return CandidateMaker(request).Make();
}

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

// The sum of confidences, weighted; nullopt when the candidate does not qualify.
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

// Names that the user gave come first.
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
  std::vector<std::pair<size_t, AttributeCandidate>> chosen;  // with the candidate's index
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
