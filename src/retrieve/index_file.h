// The file of an index: the files that it was made of, their documents in passages, the weights of
// words and, where an encoder made some, vectors, with a checksum over all of it.
//
//   "BANYANIX" · version u32 · 0 u32 · bytes of the contents u64 · their SHA-256 · contents
//   contents: words of a passage at most u32 · inputs u64, each a text
//             files u64, each path and SHA-256 · documents u64, each file u64, id, SHA-256 and
//             passages u64, which come in their order
//             passages u64, each id, source, title, text and begin i64;
//             words u64 in order, each its text, postings u64 and (passage i32, weight f32) of
//             each; 1 u32 when vectors follow, else 0:
//     the encoder's name and fingerprint · the search's name · dimensions u32
//     dense vectors f32 [passages, dimensions]
//     1 u32 when sparse ones follow, else 0: each a count u64 and (token i32, weight f32) ascending
//     the index of FAISS as a text, empty where the search is exact
//   a text is its length u64 and its bytes; everything is little-endian; paths are relative to the
//   index's folder
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/retrieval.h"
#include "base/hash.h"
#include "retrieve/bm25.h"
#include "retrieve/vector_search.h"

namespace banyan {

// What an encoder made of the passages.
struct PassageVectors {
  IndexEncoder encoder;
  VectorSearch search = VectorSearch::kExact;
  std::vector<float> dense;          // [passages, dimensions]
  std::vector<SparseVector> sparse;  // [passages], or none
  std::string faiss;                 // the bytes of its index; empty: exact
};

// A file as it was when its documents were read.
struct IndexedFile {
  std::string path;
  Digest hash{};

  bool operator==(const IndexedFile&) const = default;
};

struct IndexedDocument {
  size_t file = 0;  // of the index's
  std::string id;
  Digest hash{};  // of title and text
  size_t passages = 0;
};

struct IndexContents {
  int passage_words = 200;
  std::vector<std::string> inputs;  // what it was made of, ordered
  std::vector<IndexedFile> files;
  std::vector<IndexedDocument> documents;
  std::vector<Passage> passages;  // of all documents, in order
  std::vector<Bm25::Word> words;
  std::optional<PassageVectors> vectors;
  std::string fingerprint;  // the checksum
};

std::string IndexBytes(const IndexContents& contents);
// Throws kFormat, naming the file, for anything that IndexBytes does not write.
IndexContents ReadIndexBytes(std::span<const std::byte> bytes, const std::string& name);

// The same without what stands before the contents; the fingerprint is left empty.
IndexContents ReadIndexContents(std::span<const std::byte> contents, const std::string& name);

// The index in the folder; nothing where there is none. Throws kFormat.
std::optional<IndexContents> EarlierIndex(const std::string& directory);
// The same, or nothing where it cannot be read.
std::optional<IndexContents> ReadableIndex(const std::string& directory);

// The folder of an index, created if necessary and locked: other processes wait while one makes the
// index in it. Half-written files of a killed process are removed. Throws kIo.
class LockedFolder {
 public:
  explicit LockedFolder(const std::string& directory);
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  const std::string& path() const { return directory_; }
  // Atomically: whoever opens the index sees the old one or the new one. Throws kIo.
  void ReplaceIndex(const std::string& bytes) const;

 private:
  std::string directory_;
  int folder_ = -1;
};

}  // namespace banyan
