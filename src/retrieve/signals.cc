// Names of signals and searches.
#include "banyan/retrieval.h"
#include "base/error.h"

namespace banyan {

const char* SignalName(Signal signal) {
  constexpr const char* kNames[] = {"bm25", "dense", "sparse", "multi-vector"};
  return kNames[static_cast<int>(signal)];
}

VectorSearch ParseVectorSearch(const std::string& name) {
  for (const VectorSearch search :
       {VectorSearch::kExact, VectorSearch::kIvf, VectorSearch::kHnsw}) {
    if (name == VectorSearchName(search)) return search;
  }
  Throw(ErrorKind::kUsage, "--vectors: expected exact, ivf or hnsw, found '{}'", name);
}

const char* VectorSearchName(VectorSearch search) {
  constexpr const char* kNames[] = {"exact", "ivf", "hnsw"};
  return kNames[static_cast<int>(search)];
}

}  // namespace banyan
