#include "retrieve/passage_vectors.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "retrieve/vector_search.h"

namespace banyan {
namespace {

constexpr size_t kTokensAtOnce = 1 << 15;  // between two reports of progress

// Writes the vectors of one passage to its place.
class VectorTableWriter {
 public:
  VectorTableWriter(PassageVectors& vectors, size_t passages) : vectors_(vectors) {
    vectors.dense.resize(passages * static_cast<size_t>(vectors.encoder.dimensions));
    if (vectors.encoder.sparse) vectors.sparse.resize(passages);
  }

  void Put(size_t passage, std::span<const float> dense, PassageVectors::Sparse sparse) {
    const size_t dimensions = dense.size();
    std::ranges::copy(dense,
                      vectors_.dense.begin() + static_cast<std::ptrdiff_t>(passage * dimensions));
    if (vectors_.encoder.sparse) vectors_.sparse[passage] = std::move(sparse);
  }

 private:
  PassageVectors& vectors_;
};

// The earlier index's passages by what they show.
std::unordered_map<std::string, size_t> KnownTexts(const IndexContents* earlier,
                                                   const IndexEncoder& encoder) {
  std::unordered_map<std::string, size_t> known;
  if (earlier == nullptr || !earlier->vectors) return known;
  const IndexEncoder& before = earlier->vectors->encoder;
  if (before.fingerprint != encoder.fingerprint || before.dimensions != encoder.dimensions ||
      before.sparse != encoder.sparse) {
    return known;
  }
  for (size_t i = 0; i < earlier->passages.size(); ++i) {
    known.emplace(earlier->passages[i].Shown(), i);
  }
  return known;
}

}  // namespace

PassageVectors EmbedPassages(const std::vector<Passage>& passages, const IndexContents* earlier,
                             const IndexOptions& options, IndexReceipt& receipt) {
  Encoder& encoder = *options.encoder.encoder;
  if (!encoder.embeds()) {
    Throw(ErrorKind::kUnsupported,
          "--encoder: {} is a reranker and has no vectors; it goes to rag --reranker",
          options.encoder.name);
  }
  PassageVectors vectors;
  vectors.search = options.vectors;
  vectors.encoder = {options.encoder.name, options.encoder.fingerprint, encoder.dimensions(),
                     encoder.has_sparse()};
  VectorTableWriter writer(vectors, passages.size());
  const auto known = KnownTexts(earlier, vectors.encoder);
  std::vector<std::vector<TokenId>> texts;
  std::vector<size_t> places;
  size_t tokens = 0;
  const auto embed = [&] {
    EmbedOptions wanted;
    wanted.colbert = false;
    std::vector<Embedding> made = encoder.Embed(texts, wanted);
    for (size_t i = 0; i < made.size(); ++i) {
      writer.Put(places[i], made[i].dense, std::move(made[i].sparse));
    }
    receipt.embedded += static_cast<std::int64_t>(made.size());
    texts.clear();
    places.clear();
    tokens = 0;
    if (options.progress) {
      options.progress(receipt.embedded + receipt.kept, static_cast<std::int64_t>(passages.size()));
    }
  };
  for (size_t p = 0; p < passages.size(); ++p) {
    const std::string shown = passages[p].Shown();
    if (const auto found = known.find(shown); found != known.end()) {
      const PassageVectors& old = *earlier->vectors;
      const VectorTable table{old.dense, static_cast<size_t>(old.encoder.dimensions)};
      writer.Put(p, table.at(found->second),
                 old.encoder.sparse ? old.sparse[found->second] : PassageVectors::Sparse());
      ++receipt.kept;
      continue;
    }
    texts.push_back(EncoderTokens(encoder, shown));
    places.push_back(p);
    tokens += texts.back().size();
    if (tokens >= kTokensAtOnce) embed();
  }
  if (!texts.empty()) embed();
  if (options.vectors != VectorSearch::kExact) {
    vectors.faiss = FaissBytes(options.vectors,
                               {vectors.dense, static_cast<size_t>(vectors.encoder.dimensions)});
  }
  return vectors;
}

double SparseScore(const PassageVectors::Sparse& a, const PassageVectors::Sparse& b) {
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
