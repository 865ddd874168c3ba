// The file of an index: passages and the weights of their words, with a checksum over all of it.
//
//   "BANYANIX" · version u32 · 0 u32 · bytes of the contents u64 · their SHA-256 · contents
//   contents: passages u64, each id, source, title, text and begin i64;
//             words u64 in order, each its text, postings u64 and (passage i32, weight f32) of each
//   a text is its length u64 and its bytes; everything is little-endian
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "banyan/retrieval.h"
#include "retrieve/bm25.h"

namespace banyan {

struct IndexContents {
  std::vector<Passage> passages;
  std::vector<Bm25::Word> words;
  std::string fingerprint;  // the checksum
};

std::string IndexBytes(const std::vector<Passage>& passages, const std::vector<Bm25::Word>& words);
// Throws kFormat, naming the file, for anything that IndexBytes does not write.
IndexContents ReadIndexBytes(std::span<const std::byte> bytes, const std::string& name);

// The same without what stands before the contents; the fingerprint is left empty.
IndexContents ReadIndexContents(std::span<const std::byte> contents, const std::string& name);

}  // namespace banyan
