// Indexes in folders: made from files, replaced as a whole, opened and searched.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "banyan/retrieval.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "retrieve/bm25.h"
#include "retrieve/document_files.h"
#include "retrieve/index_file.h"
#include "retrieve/passage_vectors.h"
#include "retrieve/passages.h"
#include "retrieve/vector_search.h"
#include "retrieve/words.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

std::vector<Passage> CollectPassages(const std::vector<std::string>& inputs,
                                     const IndexOptions& options, IndexReceipt& receipt) {
  std::vector<Passage> passages;
  DocumentVisitor visitor;
  visitor.document = [&](const WholeDocument& document) {
    AppendPassages(document, options.passage_words, passages);
    ++receipt.documents;
  };
  visitor.left_out = [&](const std::string& why) {
    ++receipt.left_out;
    if (options.notice) options.notice(why);
  };
  for (const std::string& file : FilesOf(inputs, visitor)) {
    VisitDocuments(file, visitor);
  }
  return passages;
}

std::vector<Bm25::Word> WeighWords(const std::vector<Passage>& passages) {
  std::vector<std::vector<std::string>> texts;
  for (const Passage& passage : passages) texts.push_back(WordsOf(passage.Shown()));
  return Bm25(texts, Bm25Options()).Words();
}

// What stands in the folder, if that can be read.
std::optional<IndexContents> EarlierIndex(const fs::path& directory) {
  const std::string path = (directory / kIndexFileName).string();
  try {
    const MappedFile file(path);
    return ReadIndexBytes(file.bytes(), path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whole or not at all: whoever opens the index sees the old one or the new one.
void Replace(const fs::path& directory, const std::string& bytes) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", directory.string(), failed.message());
  }
  const fs::path target = directory / kIndexFileName;
  const fs::path fresh = directory / fmt::format("{}.{}", kIndexFileName, ::getpid());
  fs::remove(fresh, failed);
  try {
    const std::unique_ptr<OutputFile> file = OutputFile::Create(fresh.string(), Packing::kNone);
    file->Append(bytes);
    file->Checkpoint();
    fs::rename(fresh, target);
  } catch (const fs::filesystem_error& e) {
    fs::remove(fresh, failed);
    Throw(ErrorKind::kIo, "{}: cannot write the index: {}", target.string(), e.code().message());
  } catch (...) {
    fs::remove(fresh, failed);
    throw;
  }
  const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);  // so that the new name outlives a power cut
  ::close(folder);
}

}  // namespace

struct DocumentIndex::Parts {
  std::string directory;
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
  IndexReceipt receipt;
  if (options.vectors != VectorSearch::kExact && !HasFaiss()) {
    FaissBytes(options.vectors, {});  // says so before hours of work
  }
  IndexContents contents;
  contents.passages = CollectPassages(inputs, options, receipt);
  if (contents.passages.empty()) Throw(ErrorKind::kInput, "no document with text was found");
  contents.words = WeighWords(contents.passages);
  receipt.passages = static_cast<std::int64_t>(contents.passages.size());
  receipt.words = static_cast<std::int64_t>(contents.words.size());
  if (options.encoder) {
    const std::optional<IndexContents> earlier = EarlierIndex(directory);
    contents.vectors =
        EmbedPassages(contents.passages, earlier ? &*earlier : nullptr, options, receipt);
  }
  Replace(directory, IndexBytes(contents));
  return receipt;
}

std::shared_ptr<const DocumentIndex> DocumentIndex::Open(const std::string& directory) {
  const std::string path = (fs::path(directory) / kIndexFileName).string();
  if (!fs::exists(path)) {
    Throw(ErrorKind::kNotFound, "{}: no index there; make one with 'banyan rag index'", directory);
  }
  const MappedFile file(path);
  IndexContents contents = ReadIndexBytes(file.bytes(), path);
  auto parts = std::make_unique<Parts>();
  parts->directory = directory;
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
  for (const PassageVectors::Sparse& vector : vectors->sparse) {
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
