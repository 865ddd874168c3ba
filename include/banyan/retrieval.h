// An index of documents on disk: built once, opened, and searched by words (BM25) or by the vectors
// of an encoder. docs/rag.md describes its file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/encoder.h"

namespace banyan {

// A part of a document that is retrieved, read and cited as one.
struct Passage {
  std::string id;
  std::string source;  // the document's id: the file's path, or what a row says
  std::string title;   // may be empty
  std::string text;
  std::int64_t begin = 0;  // characters of the document before it

  // What is searched, and what a prompt shows.
  std::string Shown() const { return title.empty() ? text : title + "\n" + text; }
};

// By what a passage is found for a question.
enum class Signal {
  kBm25,         // shared words
  kDense,        // cosine of one vector each
  kSparse,       // learned weights of shared tokens
  kMultiVector,  // mean over the question's tokens of the best cosine with a token of the passage
};
// "bm25", "dense", "sparse", "multi-vector".
const char* SignalName(Signal signal);

// How the nearest dense vectors are found.
enum class VectorSearch {
  kExact,  // by looking at all of them
  kIvf,    // libfaiss: those in the nearest lists
  kHnsw,   // libfaiss: along a graph of neighbours
};
VectorSearch ParseVectorSearch(const std::string& name);  // "exact", "ivf", "hnsw"
const char* VectorSearchName(VectorSearch search);

// A question as all signals want it.
struct Query {
  std::string text;
  Embedding embedding;  // empty where only words are compared
};

struct FoundPassage {
  std::int32_t passage = 0;
  double score = 0.0;
};

struct IndexOptions {
  // A longer document is divided, between paragraphs or sentences. 0: as the index has it, else
  // 200.
  int passage_words = 0;
  // Its vectors are kept beside the words, sparse ones too where it has that head, and its name, so
  // that questions find it again. Null: words alone.
  NamedEncoder encoder;
  VectorSearch vectors = VectorSearch::kExact;
  // Hears of files that are left out, and why. May be empty.
  std::function<void(const std::string&)> notice;
  // Hears how many passages have their vectors, of how many. May be empty.
  std::function<void(std::int64_t done, std::int64_t all)> progress;
};

struct IndexReceipt {
  std::int64_t documents = 0, passages = 0, words = 0;
  // Documents beside those of the index before this one.
  std::int64_t new_documents = 0, changed_documents = 0, gone_documents = 0, kept_documents = 0;
  std::int64_t left_out = 0;  // files and rows
  std::int64_t embedded = 0;  // passages that went through the encoder
  std::int64_t kept = 0;      // passages whose vectors the index before this one had
};

// What an index was made with.
struct IndexSettings {
  int passage_words = 0;
  std::string encoder;  // empty: words alone
  VectorSearch vectors = VectorSearch::kExact;
  std::vector<std::string> inputs;  // files and folders, seen from the process's own folder
};

// Whether the file of a passage is still what was indexed.
enum class SourceState { kSame, kChanged, kGone };

// Files that are not what an index was made of, as the process's own folder sees them.
struct IndexChanges {
  std::string index;  // its folder
  std::vector<std::string> changed, gone;
  std::vector<std::string> added;  // below its inputs, with documents that it has not

  bool any() const;
  // What a person should know of them, and do; empty: nothing.
  std::string Text() const;
};

// Whose vectors an index has.
struct IndexEncoder {
  std::string name, fingerprint;
  int dimensions = 0;
  bool sparse = false;
};

class DocumentIndex {
 public:
  // Builds the index in `directory`, which is created if necessary. A reader sees the old index
  // or the new one, even if the process is killed. An input is a file, or a folder with all its
  // files: text, Markdown, HTML, PDF, or JSONL of {"id","text","title"?}. Vectors that the old
  // index has from the same encoder are reused. Throws kNotFound for a missing input, kInput
  // when there is nothing to index, kUnsupported for a search that needs libfaiss in a build
  // without it, kIo.
  static IndexReceipt Build(const std::string& directory, const std::vector<std::string>& inputs,
                            const IndexOptions& options);
  // Updates the index from the inputs: adds new files, replaces changed ones and drops deleted
  // ones, by hashes of their contents. Documents of other inputs stay. Pass the index's own
  // encoder, unless another or none is wanted. Without an index, does the same as Build. Throws
  // kFormat for an index that cannot be read, and as Build does.
  static IndexReceipt Update(const std::string& directory, const std::vector<std::string>& inputs,
                             const IndexOptions& options);
  // Nothing where there is no index. Throws kFormat.
  static std::optional<IndexSettings> SettingsOf(const std::string& directory);
  // Throws kNotFound when there is none, kFormat when it is damaged or of another version.
  static std::shared_ptr<const DocumentIndex> Open(const std::string& directory);
  ~DocumentIndex();

  std::int64_t size() const;  // passages
  const Passage& at(std::int32_t passage) const;
  const IndexEncoder* encoder() const;  // null: words alone
  // Looks at the file that the passage is from. Any thread.
  SourceState StateOf(std::int32_t passage) const;
  // Looks at all files that it is of, and for new ones below its inputs. A file is read once for as
  // long as it stays as it is. Any thread.
  IndexChanges Changes() const;
  // Throws kUnsupported, saying what to do, when the index cannot be searched by the signal (all by
  // kMultiVector), or not with this encoder's vectors.
  void Check(Signal signal, const NamedEncoder& encoder) const;

  // The best passages, best first; by words and tokens only those that share one with the query.
  // REQUIRES: the signal was checked with the encoder of the query's embedding.
  std::vector<FoundPassage> Search(Signal signal, const Query& query, size_t count) const;
  std::vector<FoundPassage> Search(const std::string& query, size_t count) const {
    return Search(Signal::kBm25, {query, {}}, count);
  }
  // Of passages, however they were found. REQUIRES: as Search.
  std::vector<double> Scores(Signal signal, const Query& query,
                             std::span<const std::int32_t> passages) const;
  // Of everything in it, in hexadecimal digits.
  const std::string& fingerprint() const;

  struct Parts;
  explicit DocumentIndex(std::unique_ptr<Parts> parts);

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace banyan
