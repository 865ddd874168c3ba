// Scores of dense, sparse and multi-vector embeddings, and the exact scan.
#include "retrieve/vector_search.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

constexpr size_t kLanes = 16;  // sums that are kept apart, so that the compiler can use vectors

}  // namespace

float InnerProduct(std::span<const float> a, std::span<const float> b) {
  BANYAN_CHECK(a.size() == b.size());
  float sums[kLanes] = {};
  const float *x = a.data(), *y = b.data();
  const size_t whole = a.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (size_t i = whole; i < a.size(); ++i) sums[i - whole] += x[i] * y[i];
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

std::vector<ScoredDocument> NearestAmong(const VectorTable& table, std::span<const float> query,
                                         std::span<const std::int32_t> candidates, size_t count) {
  std::vector<ScoredDocument> scored;
  scored.reserve(candidates.size());
  for (const std::int32_t i : candidates) {
    scored.push_back({i, InnerProduct(table.at(static_cast<size_t>(i)), query)});
  }
  return BestFirst(std::move(scored), count);
}

std::vector<ScoredDocument> NearestOf(const VectorTable& table, std::span<const float> query,
                                      size_t count) {
  std::vector<ScoredDocument> scored(table.count());
  for (size_t i = 0; i < scored.size(); ++i) {
    scored[i] = {static_cast<std::int32_t>(i), InnerProduct(table.at(i), query)};
  }
  return BestFirst(std::move(scored), count);
}

double SparseScore(const SparseVector& a, const SparseVector& b) {
  double sum = 0.0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].first == b[j].first) {
      sum += static_cast<double>(a[i++].second) * b[j++].second;
    } else if (a[i].first < b[j].first) {
      ++i;
    } else {
      ++j;
    }
  }
  return sum;
}

double MultiVectorScore(const std::vector<std::vector<float>>& query,
                        const std::vector<std::vector<float>>& document) {
  BANYAN_CHECK(!document.empty());
  double sum = 0.0;
  for (const std::vector<float>& token : query) {
    float best = -1.0f;
    for (const std::vector<float>& other : document) {
      best = std::max(best, InnerProduct(token, other));
    }
    sum += best;
  }
  return query.empty() ? 0.0 : sum / static_cast<double>(query.size());
}

}  // namespace banyan
