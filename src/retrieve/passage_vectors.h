// Passages → their vectors.
#pragma once

#include <optional>
#include <vector>

#include "retrieve/index_file.h"

namespace banyan {

// Vectors of all passages by the options' encoder, which must not be null: those of an earlier
// index (may be null) where it has the same text from the same encoder, the others computed now.
// Counts both in the receipt. Throws kUnsupported for an encoder that gives no vectors.
PassageVectors EmbedPassages(const std::vector<Passage>& passages, const IndexContents* earlier,
                             const IndexOptions& options, IndexReceipt& receipt);

// Sum over the tokens that both have of the product of their weights.
double SparseScore(const PassageVectors::Sparse& a, const PassageVectors::Sparse& b);

// Mean over the query's vectors of the best inner product with one of the document's. REQUIRES: the
// document has one.
double MultiVectorScore(const std::vector<std::vector<float>>& query,
                        const std::vector<std::vector<float>>& document);

}  // namespace banyan
