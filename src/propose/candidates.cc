#include "propose/candidates.h"

#include <algorithm>
#include <map>
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

// Without what stands in brackets, a point at the end and the loudness of a headline.
std::string NameOfLabel(const std::string& label) {
  std::string name = PlainText(label.substr(0, label.find('(')));
  while (!name.empty() && (name.back() == '.' || name.back() == '#')) name.pop_back();
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.size() > 4 && std::ranges::none_of(name, is_lower)) {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return PlainText(name);
}

// Numbers that are names: nobody adds them up.
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
  // Null when a candidate is called so already, or there are enough.
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

}  // namespace banyan
