// Which of many vectors are near to one: an exact scan of our own, and libfaiss where
// the build has it. FAISS only finds candidates; scores are always the scan's, so they have the
// same bits whatever found them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/retrieval.h"
#include "retrieve/bm25.h"

namespace banyan {

// Token id → weight, ids ascending.
using SparseVector = std::vector<std::pair<TokenId, float>>;

// Inner product: the cosine of vectors of length 1. REQUIRES: equal sizes.
float InnerProduct(std::span<const float> a, std::span<const float> b);

// Sum over the tokens that both have of the product of their weights.
double SparseScore(const SparseVector& a, const SparseVector& b);

// Mean over the query's vectors of the best inner product with one of the document's. REQUIRES: the
// document has one.
double MultiVectorScore(const std::vector<std::vector<float>>& query,
                        const std::vector<std::vector<float>>& document);

// vectors [count, dimensions] of a caller that outlives it.
struct VectorTable {
  std::span<const float> values;
  size_t dimensions = 1;

  size_t count() const { return values.size() / dimensions; }
  std::span<const float> at(size_t i) const { return values.subspan(i * dimensions, dimensions); }
};

// The `count` nearest of those vectors, best first, equal ones in order.
std::vector<ScoredDocument> NearestAmong(const VectorTable& table, std::span<const float> query,
                                         std::span<const std::int32_t> candidates, size_t count);
std::vector<ScoredDocument> NearestOf(const VectorTable& table, std::span<const float> query,
                                      size_t count);

// An index of FAISS.
class VectorFinder {
 public:
  virtual ~VectorFinder() = default;
  // At most so many that are probably the nearest, in any order. Any thread.
  virtual std::vector<std::int32_t> Find(std::span<const float> query, size_t count) const = 0;
};

bool HasFaiss();
// The bytes of an index over the vectors, the same for the same vectors. `search` is kIvf
// or kHnsw. Throws kUnsupported without FAISS, kInput when FAISS refuses.
std::string FaissBytes(VectorSearch search, const VectorTable& table);
// Opens such bytes. Throws kUnsupported without FAISS, kFormat when they are no index of so many
// vectors of that size; `name` is the file.
std::unique_ptr<VectorFinder> OpenFaiss(const std::string& bytes, size_t count, size_t dimensions,
                                        const std::string& name);

}  // namespace banyan
