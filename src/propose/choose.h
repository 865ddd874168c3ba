// Which candidates become attributes. A model finds something for almost every name it is asked
// for, so candidates compete for the words of the documents.
#pragma once

#include <cstddef>
#include <vector>

#include "propose/candidates.h"

namespace banyan {

struct ChoiceRules {
  size_t least_documents = 2;  // with a sure value
  size_t most_attributes = 24;
  double sure = 0.5;  // confidence of a sure value
  double mean = 0.4;  // least mean confidence of all values, times the weight
  double kept = 0.3;  // values below it do not count for the coverage
};

// One after another, the candidate whose values have the greatest sum of confidence times weight
// takes its words in each document. A value of which half is taken no longer counts. Behind a label
// ("Subject: Order 77 is late") a part of the value is still free for a name of its own. A
// candidate needs sure values in `least_documents` documents and a mean confidence; one that a
// person gave needs a single value. Values that do not look as the candidate's are to (LooksLike)
// do not count, unless labelled. The result has the values that count, sorted by coverage, then by
// the order of the candidates.
std::vector<AttributeCandidate> ChooseAttributes(std::vector<AttributeCandidate> candidates,
                                                 const ChoiceRules& rules);

}  // namespace banyan
