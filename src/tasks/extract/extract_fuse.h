// Fuses the values that several documents of one entity give; each value keeps its source.
//
// A document that gives null for a slot says nothing about it. Of the others, document d gives its
// value with confidence c_d, the probability that it is right, and documents err independently,
// each into one of m other values (booleans 1, enums what else is allowed, others 10 or as many as
// were given, if that is more). So a value v that the documents D_v give weighs
//
//   w_v = prod over d in D_v of m c_d / (1 - c_d),
//
// a value that none gives 1, and the probability that v is right is w_v / (sum_u w_u + m + 1 - k)
// with k different values. One document's value keeps its confidence; agreement raises it, conflict
// lowers it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/json_library.h"
#include "tasks/extract/extract_slot.h"
#include "tasks/extract/extract_value.h"

namespace banyan {

// The values that one document gives.
struct DocumentValues {
  nlohmann::ordered_json id;
  std::vector<ExtractedValue> values;
};

// Every document was read by itself. The order of documents matters only where two values, or two
// documents of a value, are equally likely: then the first counts. Lists are united, the surest
// document's items first; a list of objects is that of the surest document. REQUIRES: one document
// or more; all have values of these leaves.
std::vector<ExtractedValue> FuseDocuments(std::span<const Leaf> leaves,
                                          std::span<const DocumentValues> documents);

// All documents (or parts of one: their ids are equal) wrote the same values together, token by
// token. The source of a value is a document in which it stands; of several, the one that won most
// of its tokens. REQUIRES: all have values of the same names, with places in their own texts.
std::vector<ExtractedValue> FindSources(std::span<const DocumentValues> experts);

// The same text for values that say the same: 12 and 12.0, "Sony" and "SONY".
std::string MeaningOf(const ExtractAttribute& attribute, const nlohmann::ordered_json& value);

}  // namespace banyan
