// Indexes in folders: built, updated, opened and searched. And the names of signals and searches.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "banyan/retrieval.h"
#include "base/error.h"
#include "base/files.h"
#include "retrieve/bm25.h"
#include "retrieve/corpus.h"
#include "retrieve/index_build.h"
#include "retrieve/index_changes.h"
#include "retrieve/index_file.h"
#include "retrieve/vector_search.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

}  // namespace

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

struct DocumentIndex::Parts {
  Parts(const std::string& directory_, std::vector<IndexedFile> files_,
        std::vector<std::string> inputs)
      : directory(directory_), files(directory_, std::move(files_), std::move(inputs)) {}

  const std::string directory;
  const IndexedFiles files;
  std::vector<size_t> file_of;  // [passages]
  std::vector<Passage> passages;
  Bm25 bm25;
  std::optional<PassageVectors> vectors;
  std::unique_ptr<VectorFinder> finder;  // null: exact
  std::string fingerprint;

  VectorTable table() const {
    return {vectors->dense, static_cast<size_t>(vectors->encoder.dimensions)};
  }
  // Of every passage. By words and tokens: 0 where none is shared.
  std::vector<float> ScoresOf(Signal signal, const Query& query) const;
  std::vector<ScoredDocument> Nearest(std::span<const float> query, size_t count) const;
};

DocumentIndex::DocumentIndex(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DocumentIndex::~DocumentIndex() = default;

IndexReceipt DocumentIndex::Build(const std::string& directory,
                                  const std::vector<std::string>& inputs,
                                  const IndexOptions& options) {
  const LockedFolder folder(directory);
  const std::optional<IndexContents> known = ReadableIndex(directory);
  return MakeIndex(folder, inputs, nullptr, known ? &*known : nullptr, options);
}

IndexReceipt DocumentIndex::Update(const std::string& directory,
                                   const std::vector<std::string>& inputs,
                                   const IndexOptions& options) {
  const LockedFolder folder(directory);
  const std::optional<IndexContents> earlier = EarlierIndex(directory);
  const IndexContents* before = earlier ? &*earlier : nullptr;
  return MakeIndex(folder, inputs, before, before, options);
}

std::optional<IndexSettings> DocumentIndex::SettingsOf(const std::string& directory) {
  const std::optional<IndexContents> index = EarlierIndex(directory);
  if (!index) return std::nullopt;
  IndexSettings settings;
  settings.passage_words = index->passage_words;
  if (index->vectors) {
    settings.encoder = index->vectors->encoder.name;
    settings.vectors = index->vectors->search;
  }
  for (const std::string& input : index->inputs) {
    settings.inputs.push_back(PlaceOfFile(directory, input));
  }
  return settings;
}

std::shared_ptr<const DocumentIndex> DocumentIndex::Open(const std::string& directory) {
  const std::string path = (fs::path(directory) / kIndexFileName).string();
  if (!fs::exists(path)) {
    Throw(ErrorKind::kNotFound, "{}: no index there; make one with 'banyan rag index'", directory);
  }
  const MappedFile file(path);
  IndexContents contents = ReadIndexBytes(file.bytes(), path);
  auto parts =
      std::make_unique<Parts>(directory, std::move(contents.files), std::move(contents.inputs));
  for (const IndexedDocument& document : contents.documents) {
    parts->file_of.insert(parts->file_of.end(), document.passages, document.file);
  }
  parts->passages = std::move(contents.passages);
  parts->bm25 =
      Bm25::FromWords(static_cast<std::int64_t>(parts->passages.size()), std::move(contents.words));
  parts->vectors = std::move(contents.vectors);
  if (parts->vectors && !parts->vectors->faiss.empty()) {
    parts->finder =
        OpenFaiss(parts->vectors->faiss, parts->passages.size(), parts->table().dimensions, path);
    parts->vectors->faiss = {};
  }
  parts->fingerprint = std::move(contents.fingerprint);
  return std::make_shared<const DocumentIndex>(std::move(parts));
}

std::int64_t DocumentIndex::size() const {
  return static_cast<std::int64_t>(parts_->passages.size());
}

const Passage& DocumentIndex::at(std::int32_t passage) const {
  return parts_->passages.at(static_cast<size_t>(passage));
}

const IndexEncoder* DocumentIndex::encoder() const {
  return parts_->vectors ? &parts_->vectors->encoder : nullptr;
}

SourceState DocumentIndex::StateOf(std::int32_t passage) const {
  return parts_->files.StateOf(parts_->file_of.at(static_cast<size_t>(passage)));
}

IndexChanges DocumentIndex::Changes() const { return parts_->files.Changes(); }

const std::string& DocumentIndex::fingerprint() const { return parts_->fingerprint; }

void DocumentIndex::Check(Signal signal, const NamedEncoder& encoder) const {
  if (signal == Signal::kBm25) return;
  const IndexEncoder* mine = this->encoder();
  if (mine == nullptr) {
    Throw(ErrorKind::kUnsupported,
          "{}: the index has words alone, no {} vectors; make it with 'banyan rag index --encoder "
          "MODEL'",
          parts_->directory, SignalName(signal));
  }
  if (signal == Signal::kMultiVector) {
    Throw(ErrorKind::kUnsupported,
          "--candidates multi-vector: an index has no vectors of single tokens; expected bm25, "
          "dense or sparse (--relevance multi-vector is possible)");
  }
  if (signal == Signal::kSparse && !mine->sparse) {
    Throw(ErrorKind::kUnsupported,
          "{}: the index has no sparse vectors; its encoder '{}' has no such head",
          parts_->directory, mine->name);
  }
  if (!encoder) {
    Throw(ErrorKind::kUsage, "{}: questions of this index need its encoder '{}' (--encoder)",
          parts_->directory, mine->name);
  }
  if (encoder->dimensions() != mine->dimensions) {
    Throw(ErrorKind::kInput, "{}: the index has vectors of {} dimensions by '{}'; '{}' makes {}",
          parts_->directory, mine->dimensions, mine->name, encoder.name, encoder->dimensions());
  }
  if (encoder.fingerprint != mine->fingerprint) {
    Throw(ErrorKind::kInput, "{}: the index was made by another encoder, '{}' ({}); '{}' is {}",
          parts_->directory, mine->name, mine->fingerprint.substr(0, 12), encoder.name,
          encoder.fingerprint.substr(0, 12));
  }
}

std::vector<ScoredDocument> DocumentIndex::Parts::Nearest(std::span<const float> query,
                                                          size_t count) const {
  if (finder == nullptr) return NearestOf(table(), query, count);
  return NearestAmong(table(), query, finder->Find(query, count), count);
}

std::vector<float> DocumentIndex::Parts::ScoresOf(Signal signal, const Query& query) const {
  if (signal == Signal::kBm25) return bm25.Scores(WordsOf(query.text));
  std::vector<float> scores;
  for (const SparseVector& vector : vectors->sparse) {
    scores.push_back(static_cast<float>(SparseScore(query.embedding.sparse, vector)));
  }
  return scores;
}

std::vector<FoundPassage> DocumentIndex::Search(Signal signal, const Query& query,
                                                size_t count) const {
  const std::vector<ScoredDocument> best =
      signal == Signal::kDense ? parts_->Nearest(query.embedding.dense, count)
                               : BestDocuments(parts_->ScoresOf(signal, query), count);
  std::vector<FoundPassage> found;
  for (const ScoredDocument& one : best) found.push_back({one.document, one.score});
  return found;
}

std::vector<double> DocumentIndex::Scores(Signal signal, const Query& query,
                                          std::span<const std::int32_t> passages) const {
  std::vector<double> scores;
  if (signal == Signal::kDense) {
    for (const std::int32_t p : passages) {
      scores.push_back(
          InnerProduct(parts_->table().at(static_cast<size_t>(p)), query.embedding.dense));
    }
    return scores;
  }
  if (signal == Signal::kSparse) {
    for (const std::int32_t p : passages) {
      const auto& vector = parts_->vectors->sparse[static_cast<size_t>(p)];
      scores.push_back(SparseScore(query.embedding.sparse, vector));
    }
    return scores;
  }
  const std::vector<float> all = parts_->ScoresOf(signal, query);
  for (const std::int32_t p : passages) scores.push_back(all[static_cast<size_t>(p)]);
  return scores;
}

}  // namespace banyan
