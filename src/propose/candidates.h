// Names that may become attributes (labels of several documents, names of the lexicon, names that
// the user gave), and which of them do.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "propose/labels.h"
#include "propose/lexicon.h"
#include "text/span.h"

namespace banyan {

// The value of a candidate in one document.
struct SampleValue {
  std::string text;
  double confidence = 0.0;  // that it is right; 1 after a label
  TextSpan place;           // in characters of the document
  bool labelled = false;
};

struct AttributeCandidate {
  std::string name;
  Expected expected = Expected::kAnything;
  double weight = 1.0;                             // see LexiconEntry
  size_t label_documents = 0;                      // that have it as a label
  bool given = false;                              // by the user
  std::vector<std::optional<SampleValue>> values;  // [documents]

  size_t coverage() const;  // documents with a value
};

struct CandidateRequest {
  std::vector<std::vector<FoundLabel>> labels;  // [documents]
  std::vector<const LexiconKind*> kinds;
  std::vector<std::string> names;  // given by the user
  size_t least_documents = 2;      // that have a label
};

inline constexpr size_t kMostCandidates = 96;

// Labels that are spellings of one entry of the lexicon are one candidate, unless one document has
// two of them ("Total" and "Amount due"). A candidate has the name that most documents use, else
// that of the lexicon. Values are those after labels. Given names first, then labels by frequency,
// then the lexicon in its order; no two are equal (LabelKey); kMostCandidates at most.
std::vector<AttributeCandidate> MakeCandidates(const CandidateRequest& request);

struct ChoiceRules {
  size_t least_documents = 2;  // with a sure value
  size_t most_attributes = 24;
  double sure = 0.5;  // confidence of a sure value
  double mean = 0.4;  // least mean confidence of all values, times the weight
  double kept = 0.3;  // values below it do not count for the coverage
};

// A model finds something for almost every name it is asked for, so candidates compete for the
// words of the documents. Greedily, the candidate whose values have the greatest sum of confidence
// times weight takes its words in each document. A value of which half is taken no longer counts;
// inside a labelled value ("Subject: Order 77 is late") a part is still free for another name. A
// candidate needs sure values in `least_documents` documents and a mean confidence; one that the
// user gave needs a single value. Values that do not look as expected (LooksLike) do not count,
// unless labelled. The result has the values that count, sorted by coverage, then by the order of
// the candidates.
std::vector<AttributeCandidate> ChooseAttributes(std::vector<AttributeCandidate> candidates,
                                                 const ChoiceRules& rules);

}  // namespace banyan
