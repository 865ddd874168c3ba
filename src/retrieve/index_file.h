// The file of an index: passages, the weights of their words and, where an encoder made some, their
// vectors, with a checksum over all of it.
//
//   "BANYANIX" · version u32 · 0 u32 · bytes of the contents u64 · their SHA-256 · contents
//   contents: passages u64, each id, source, title, text and begin i64;
//             words u64 in order, each its text, postings u64 and (passage i32, weight f32) of
//             each; 1 u32 when vectors follow, else 0:
//     the encoder's name and fingerprint · the search's name · dimensions u32
//     dense vectors f32 [passages, dimensions]
//     1 u32 when sparse ones follow, else 0: each a count u64 and (token i32, weight f32) ascending
//     the index of FAISS as a text, empty where the search is exact
//   a text is its length u64 and its bytes; everything is little-endian
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/retrieval.h"
#include "retrieve/bm25.h"

namespace banyan {

// What an encoder made of the passages.
struct PassageVectors {
  using Sparse = std::vector<std::pair<TokenId, float>>;

  IndexEncoder encoder;
  VectorSearch search = VectorSearch::kExact;
  std::vector<float> dense;    // [passages, dimensions]
  std::vector<Sparse> sparse;  // [passages], or none
  std::string faiss;           // the bytes of its index; empty: exact
};

struct IndexContents {
  std::vector<Passage> passages;
  std::vector<Bm25::Word> words;
  std::optional<PassageVectors> vectors;
  std::string fingerprint;  // the checksum
};

std::string IndexBytes(const IndexContents& contents);
// Throws kFormat, naming the file, for anything that IndexBytes does not write.
IndexContents ReadIndexBytes(std::span<const std::byte> bytes, const std::string& name);

// The same without what stands before the contents; the fingerprint is left empty.
IndexContents ReadIndexContents(std::span<const std::byte> contents, const std::string& name);

}  // namespace banyan
