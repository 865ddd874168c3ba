// Documents on disk that questions are asked of: an index is made once, opened and searched by
// words (BM25). Files of an index are described in docs/rag.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace banyan {

// A stretch of a document that is found, read and cited as one.
struct Passage {
  std::string id;
  std::string source;  // the document's id: the file's path, or what a row says
  std::string title;   // may be empty
  std::string text;
  std::int64_t begin = 0;  // characters of the document before it
};

struct FoundPassage {
  std::int32_t passage = 0;
  double score = 0.0;
};

struct IndexOptions {
  int passage_words = 200;  // a longer document is divided, between paragraphs or sentences
  // Hears of files that are left out, and why. May be empty.
  std::function<void(const std::string&)> notice;
};

struct IndexReceipt {
  std::int64_t documents = 0, passages = 0, words = 0;
  std::int64_t left_out = 0;  // files and rows
};

class DocumentIndex {
 public:
  // Reads the inputs and replaces the index in `directory` (made if need be) as a whole. An input
  // is a file, or a folder all of whose files are meant: text, or JSONL of {"id","text","title"?}
  // with the ending .jsonl. Throws kNotFound for an input that is not there, kInput when nothing
  // was left to index, kIo.
  static IndexReceipt Build(const std::string& directory, const std::vector<std::string>& inputs,
                            const IndexOptions& options);
  // Throws kNotFound when there is none, kFormat when it is damaged or of another version.
  static std::shared_ptr<const DocumentIndex> Open(const std::string& directory);
  ~DocumentIndex();

  std::int64_t size() const;  // passages
  const Passage& at(std::int32_t passage) const;
  // The best passages that share a word with the query, best first.
  std::vector<FoundPassage> Search(const std::string& query, size_t count) const;
  // Of everything in it, in hexadecimal digits.
  const std::string& fingerprint() const;

  struct Parts;
  explicit DocumentIndex(std::unique_ptr<Parts> parts);

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace banyan
