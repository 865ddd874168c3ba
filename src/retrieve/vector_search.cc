// Scores of dense, sparse and multi-vector embeddings, the exact scan, and libfaiss.
#include "retrieve/vector_search.h"

#ifdef BANYAN_WITH_FAISS
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/impl/FaissException.h>
#include <faiss/impl/io.h>
#include <faiss/index_io.h>
#include <omp.h>
#endif

#include <algorithm>
#include <cmath>

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

// libfaiss. Indexes are made by one thread, so that the same vectors always give the same bytes; a
// search is one query, which FAISS answers on the caller's thread.
#ifdef BANYAN_WITH_FAISS

namespace {

constexpr int kNeighbours = 32, kEffortBuilding = 200;  // of HNSW
constexpr size_t kVectorsPerList = 40;                  // of IVF, to learn a list's middle from

// One thread for FAISS while it lives; OpenMP keeps the number for every thread apart.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

size_t ListsFor(size_t count) {
  const auto by_root = static_cast<size_t>(4.0 * std::sqrt(static_cast<double>(count)));
  return std::clamp(by_root, size_t{1}, std::max<size_t>(1, count / kVectorsPerList));
}

std::unique_ptr<faiss::Index> Make(VectorSearch search, const VectorTable& table) {
  const auto dimensions = static_cast<int>(table.dimensions);
  const auto count = static_cast<faiss::Index::idx_t>(table.count());
  if (search == VectorSearch::kHnsw) {
    auto index = std::make_unique<faiss::IndexHNSWFlat>(dimensions, kNeighbours,
                                                        faiss::METRIC_INNER_PRODUCT);
    index->hnsw.efConstruction = kEffortBuilding;
    index->add(count, table.values.data());
    return index;
  }
  auto lists = std::make_unique<faiss::IndexFlatIP>(dimensions);
  auto index = std::make_unique<faiss::IndexIVFFlat>(
      lists.get(), table.dimensions, ListsFor(table.count()), faiss::METRIC_INNER_PRODUCT);
  index->own_fields = true;
  lists.release();
  index->cp.min_points_per_centroid = 1;  // otherwise it prints
  index->train(count, table.values.data());
  index->add(count, table.values.data());
  return index;
}

class FaissFinder : public VectorFinder {
 public:
  explicit FaissFinder(std::unique_ptr<faiss::Index> index) : index_(std::move(index)) {}

  std::vector<std::int32_t> Find(std::span<const float> query, size_t count) const override {
    count = std::min(count, static_cast<size_t>(index_->ntotal));
    std::vector<float> scores(count);
    std::vector<faiss::Index::idx_t> found(count, -1);
    const OneThread one;
    index_->search(1, query.data(), static_cast<faiss::Index::idx_t>(count), scores.data(),
                   found.data());
    std::vector<std::int32_t> numbers;
    for (const faiss::Index::idx_t i : found) {
      if (i >= 0) numbers.push_back(static_cast<std::int32_t>(i));
    }
    return numbers;
  }

 private:
  std::unique_ptr<faiss::Index> index_;
};

// How thoroughly an index is searched: a quarter of the lists of IVF, at least 16; of HNSW four
// times what FAISS would look at.
void SetEffort(faiss::Index& index) {
  constexpr size_t kLeastLists = 16;
  constexpr int kEffort = 64;
  if (auto* ivf = dynamic_cast<faiss::IndexIVF*>(&index)) {
    ivf->nprobe = std::min(ivf->nlist, std::max(kLeastLists, ivf->nlist / 4));
  }
  if (auto* graph = dynamic_cast<faiss::IndexHNSW*>(&index)) graph->hnsw.efSearch = kEffort;
}

}  // namespace

bool HasFaiss() { return true; }

std::string FaissBytes(VectorSearch search, const VectorTable& table) {
  BANYAN_CHECK(search != VectorSearch::kExact);
  const OneThread one;
  try {
    const std::unique_ptr<faiss::Index> index = Make(search, table);
    faiss::VectorIOWriter writer;
    faiss::write_index(index.get(), &writer);
    return std::string(writer.data.begin(), writer.data.end());
  } catch (const faiss::FaissException& e) {
    Throw(ErrorKind::kInput, "libfaiss cannot make the index: {}", e.what());
  }
}

std::unique_ptr<VectorFinder> OpenFaiss(const std::string& bytes, size_t count, size_t dimensions,
                                        const std::string& name) {
  try {
    faiss::VectorIOReader reader;
    reader.data.assign(bytes.begin(), bytes.end());
    std::unique_ptr<faiss::Index> index(faiss::read_index(&reader));
    if (static_cast<size_t>(index->ntotal) != count ||
        static_cast<size_t>(index->d) != dimensions) {
      Throw(ErrorKind::kFormat,
            "{}: an index of FAISS with {} vectors of {}: expected {} of {}; make it again", name,
            index->ntotal, index->d, count, dimensions);
    }
    SetEffort(*index);
    return std::make_unique<FaissFinder>(std::move(index));
  } catch (const faiss::FaissException& e) {
    Throw(ErrorKind::kFormat, "{}: libfaiss cannot read its part: {}", name, e.what());
  }
}

#else

bool HasFaiss() { return false; }

std::string FaissBytes(VectorSearch search, const VectorTable&) {
  Throw(ErrorKind::kUnsupported,
        "--vectors {}: this program was built without libfaiss; exact needs none",
        VectorSearchName(search));
}

std::unique_ptr<VectorFinder> OpenFaiss(const std::string&, size_t, size_t,
                                        const std::string& name) {
  Throw(ErrorKind::kUnsupported,
        "{}: made with libfaiss, and this program was built without it; make the index again with "
        "--vectors exact",
        name);
}

#endif

}  // namespace banyan
