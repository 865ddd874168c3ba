// Documents that give the same value are a group; sums do not depend on the order of documents.
#include "tasks/extract/extract_fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "program/score.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// How many wrong values a document may give instead of the right one.
constexpr double kOtherValues = 10.0;
constexpr double kSurest = 1.0 - 1e-6, kLeastSure = 1e-6;

// What one document gives for a slot.
struct Claim {
  const DocumentValues* document = nullptr;
  const ExtractedValue* value = nullptr;
  double confidence = 0.0;  // neither 0 nor 1
};

Claim MakeClaim(const DocumentValues& document, const ExtractedValue& value) {
  const double confidence = std::isfinite(value.confidence) ? value.confidence : 0.0;
  return {&document, &value, std::clamp(confidence, kLeastSure, kSurest)};
}

bool IsNull(const Claim& claim) { return claim.value->value.is_null(); }

double OtherValuesOf(const ExtractAttribute& attribute, size_t given) {
  if (attribute.kind == ValueKind::kBoolean) return 1.0;
  if (attribute.kind == ValueKind::kEnum) {
    return std::max<double>(1.0, static_cast<double>(attribute.allowed.size()) - 1.0);
  }
  return std::max(kOtherValues, static_cast<double>(given));
}

// Documents that give the same value.
struct Group {
  std::vector<Claim> claims;  // in the order of documents
  double log_weight = 0.0;

  double best() const { return std::ranges::max(claims, {}, &Claim::confidence).confidence; }
};

// Sums in the order of their size, so that the order of documents does not matter.
double LogWeight(const Group& group, double others) {
  std::vector<double> terms;
  for (const Claim& claim : group.claims) {
    terms.push_back(std::log(others) + std::log(claim.confidence) - std::log1p(-claim.confidence));
  }
  std::ranges::sort(terms);
  double sum = 0.0;
  for (const double term : terms) sum += term;
  return sum;
}

// `groups`: by meaning, so that sums do not depend on the order of documents either.
double ProbabilityOf(const Group& chosen, const std::map<std::string, Group>& groups,
                     double others) {
  const double none = others + 1.0 - static_cast<double>(groups.size());
  double largest = 0.0;
  for (const auto& [meaning, group] : groups) largest = std::max(largest, group.log_weight);
  double sum = std::max(none, 0.0) * std::exp(-largest);
  for (const auto& [meaning, group] : groups) sum += std::exp(group.log_weight - largest);
  return std::exp(chosen.log_weight - largest) / sum;
}

OrderedJson ConflictOf(const Claim& claim) {
  OrderedJson conflict = {{"document", claim.document->id}, {"value", claim.value->value}};
  conflict["confidence"] = std::round(claim.confidence * 1e4) / 1e4;
  const std::vector<std::optional<TextSpan>>& places = claim.value->places;
  conflict["span"] = places.empty() || !places.front()
                         ? OrderedJson(nullptr)
                         : OrderedJson::array({places.front()->start, places.front()->end});
  return conflict;
}

// No document has a value. The reason is that of a value that was written and could not be
// converted; else the confidence is that of the least sure document.
ExtractedValue FuseNulls(const std::vector<Claim>& claims) {
  const Claim* best = &claims.front();
  for (const Claim& claim : claims) {
    const bool why = !claim.value->reason.empty(), best_why = !best->value->reason.empty();
    const bool better =
        why ? claim.confidence > best->confidence : claim.confidence < best->confidence;
    if (why != best_why ? why : better) best = &claim;
  }
  return *best->value;
}

ExtractedValue FuseSlot(const std::vector<Claim>& claims) {
  const ExtractAttribute& attribute = *claims.front().value->attribute;
  std::map<std::string, Group> groups;  // by meaning
  for (const Claim& claim : claims) {
    if (!IsNull(claim)) {
      groups[MeaningOf(attribute, claim.value->value)].claims.push_back(claim);
    }
  }
  if (groups.empty()) return FuseNulls(claims);
  const double others = OtherValuesOf(attribute, groups.size());
  for (auto& [meaning, group] : groups) group.log_weight = LogWeight(group, others);
  const auto first_document = [](const Group& group) { return group.claims.front().document; };
  const Group* chosen = nullptr;
  for (const auto& [meaning, group] : groups) {
    const auto rank = [&](const Group& g) {
      return std::tuple(-g.log_weight, -g.best(), first_document(g));
    };
    if (chosen == nullptr || rank(group) < rank(*chosen)) chosen = &group;
  }
  // Of the documents that say it, one in which it stands, the surest.
  const Claim* source = &chosen->claims.front();
  for (const Claim& claim : chosen->claims) {
    const bool stands = claim.value->grounded(), source_stands = source->value->grounded();
    if (stands != source_stands ? stands : claim.confidence > source->confidence) source = &claim;
  }
  ExtractedValue fused = *source->value;
  fused.confidence = ProbabilityOf(*chosen, groups, others);
  fused.sources = {source->document->id};
  for (const Claim& claim : claims) {
    if (IsNull(claim) || claim.document == source->document) continue;
    const bool agrees = std::ranges::any_of(
        chosen->claims, [&](const Claim& other) { return other.document == claim.document; });
    if (agrees) {
      fused.agreeing.push_back(claim.document->id);
    } else {
      fused.conflicts.push_back(ConflictOf(claim));
    }
  }
  return fused;
}

// The surest first; equally sure ones in the order of documents.
void SortBySureness(std::vector<Claim>& claims) {
  std::ranges::stable_sort(claims, std::greater{}, &Claim::confidence);
}

ExtractedValue FuseList(std::vector<Claim> claims) {
  if (std::ranges::all_of(claims, IsNull)) return FuseNulls(claims);
  std::erase_if(claims, IsNull);
  SortBySureness(claims);
  const ExtractAttribute& attribute = *claims.front().value->attribute;
  const ExtractAttribute& item_type = attribute.parts.front();
  ExtractedValue fused = *claims.front().value;
  fused.value = OrderedJson::array();
  fused.places.clear();
  std::vector<std::string> known;
  for (const Claim& claim : claims) {
    bool gave_one = false;
    const OrderedJson& items = claim.value->value;
    for (size_t i = 0; items.is_array() && i < items.size(); ++i) {
      const std::string meaning = MeaningOf(item_type, items[i]);
      if (std::ranges::find(known, meaning) != known.end()) continue;
      if (fused.value.size() >= static_cast<size_t>(attribute.max_items)) break;
      known.push_back(meaning);
      fused.value.push_back(items[i]);
      fused.places.push_back(i < claim.value->places.size() ? claim.value->places[i]
                                                            : std::nullopt);
      fused.sources.push_back(claim.document->id);
      gave_one = true;
    }
    if (gave_one) fused.confidence = std::min(fused.confidence, claim.value->confidence);
  }
  return fused;
}

bool IsOfList(const ExtractedValue& value, const Leaf& list) {
  return value.name == list.name || value.name.starts_with(list.name + "[");
}

// A list of objects is taken whole, from the document that was surest about its objects.
void AddObjects(const Leaf& leaf, std::span<const DocumentValues> documents,
                std::vector<ExtractedValue>& fused) {
  std::vector<Claim> claims;
  for (const DocumentValues& document : documents) {
    const auto first = std::ranges::find_if(
        document.values, [&](const ExtractedValue& value) { return IsOfList(value, leaf); });
    BANYAN_CHECK(first != document.values.end());
    claims.push_back(MakeClaim(document, *first));
  }
  const auto has_none = [&](const Claim& claim) { return claim.value->name == leaf.name; };
  if (std::ranges::all_of(claims, has_none)) return fused.push_back(FuseNulls(claims));
  std::erase_if(claims, has_none);
  SortBySureness(claims);
  const DocumentValues& document = *claims.front().document;
  for (const ExtractedValue& value : document.values) {
    if (!IsOfList(value, leaf)) continue;
    fused.push_back(value);
    fused.back().sources.assign(std::max<size_t>(1, value.places.size()), document.id);
  }
}

int TokensOf(std::span<const DocumentValues> documents) {
  int tokens = 0;
  for (const DocumentValues& document : documents) {
    for (const ExtractedValue& value : document.values) tokens += value.tokens;
  }
  return tokens;
}

}  // namespace

std::string MeaningOf(const ExtractAttribute& attribute, const OrderedJson& value) {
  if (value.is_number()) return fmt::format("{:.9g}", value.get<double>());
  const bool text = value.is_string() && attribute.kind == ValueKind::kText;
  const std::string plain = text ? NormalizedAnswer(value.get<std::string>()) : "";
  return plain.empty() ? DumpJson(value) : plain;
}

std::vector<ExtractedValue> FuseDocuments(std::span<const Leaf> leaves,
                                          std::span<const DocumentValues> documents) {
  std::vector<ExtractedValue> fused;
  for (const Leaf& leaf : leaves) {
    if (leaf.attribute->kind == ValueKind::kObjects) {
      AddObjects(leaf, documents, fused);
      continue;
    }
    std::vector<Claim> claims;
    for (const DocumentValues& document : documents) {
      const auto value = std::ranges::find(document.values, leaf.name, &ExtractedValue::name);
      BANYAN_CHECK(value != document.values.end());
      claims.push_back(MakeClaim(document, *value));
    }
    const bool list = leaf.attribute->kind == ValueKind::kList;
    fused.push_back(list ? FuseList(std::move(claims)) : FuseSlot(claims));
  }
  for (ExtractedValue& value : fused) value.tokens = 0;
  if (!fused.empty()) fused.front().tokens = TokensOf(documents);
  return fused;
}

std::vector<ExtractedValue> FindSources(std::span<const DocumentValues> experts) {
  std::vector<ExtractedValue> found;
  for (size_t i = 0; i < experts.front().values.size(); ++i) {
    const auto votes = [&](size_t expert) {
      const std::vector<std::int32_t>& winners = experts.front().values[i].experts;
      return std::ranges::count(winners, static_cast<std::int32_t>(expert));
    };
    const auto rank = [&](size_t expert) {
      const ExtractedValue& value = experts[expert].values[i];
      return std::tuple(value.grounded(), !value.value.is_null(), votes(expert));
    };
    size_t best = 0;
    for (size_t expert = 1; expert < experts.size(); ++expert) {
      BANYAN_CHECK(experts[expert].values[i].name == experts.front().values[i].name);
      if (rank(expert) > rank(best)) best = expert;
    }
    ExtractedValue& value = found.emplace_back(experts[best].values[i]);
    value.sources.assign(std::max<size_t>(1, value.places.size()), experts[best].id);
    // Items of a list may stand in different documents.
    for (size_t item = 0; item < value.places.size(); ++item) {
      for (size_t expert = 0; !value.places[item] && expert < experts.size(); ++expert) {
        const std::vector<std::optional<TextSpan>>& places = experts[expert].values[i].places;
        if (item >= places.size() || !places[item]) continue;
        value.places[item] = places[item];
        value.sources[item] = experts[expert].id;
      }
    }
  }
  return found;
}

}  // namespace banyan
