// Names that may become attributes: labels that several documents have, names of the lexicon, and
// names that a person gave.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "propose/labels.h"
#include "propose/lexicon.h"
#include "text/span.h"

namespace banyan {

// What a document has for a candidate.
struct SampleValue {
  std::string text;
  double confidence = 0.0;  // that it is right; 1 behind a label
  TextSpan place;           // characters of the document
  bool labelled = false;
};

struct AttributeCandidate {
  std::string name;
  Expected expected = Expected::kAnything;
  double weight = 1.0;                             // see LexiconEntry
  size_t label_documents = 0;                      // that have it as a label
  bool given = false;                              // by a person
  std::vector<std::optional<SampleValue>> values;  // [documents]

  size_t coverage() const;  // documents with a value
};

struct CandidateRequest {
  std::vector<std::vector<FoundLabel>> labels;  // [documents]
  std::vector<const LexiconKind*> kinds;
  std::vector<std::string> names;  // given by a person
  size_t least_documents = 2;      // that have a label
};

inline constexpr size_t kMostCandidates = 96;

// Labels that are spellings of one entry of the lexicon are one candidate, unless one document has
// two of them ("Total" and "Amount due"). A candidate is called as most documents call it, else as
// the lexicon does. Values are those behind labels. Given names first, then labels by frequency,
// then the lexicon in its order; no two are equal (LabelKey); kMostCandidates at most.
std::vector<AttributeCandidate> MakeCandidates(const CandidateRequest& request);

}  // namespace banyan
