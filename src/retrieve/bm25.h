// BM25 in Lucene's form, with the weights of the Python package bm25s (its defaults):
//
//   score(d, q) = sum over words w of q of idf(w) · tf / (tf + k1 (1 - b + b |d| / mean |d|))
//   idf(w)      = ln(1 + (N - df + 1/2) / (df + 1/2))
//
// A word that comes twice in the query counts twice; one that no document has counts nothing.
// Weights are float32, and so is their sum in the order of the query's words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace banyan {

struct Bm25Options {
  double k1 = 1.5, b = 0.75;
};

class Bm25 {
 public:
  struct Posting {
    std::int32_t document = 0;
    float weight = 0.0f;
  };

  Bm25() = default;
  // Documents as their words.
  Bm25(std::span<const std::vector<std::string>> documents, const Bm25Options& options);

  std::vector<float> Scores(std::span<const std::string> query) const;  // [documents]

  // What a file keeps. Postings of a word are in order of documents.
  struct Word {
    std::string text;
    std::vector<Posting> postings;
  };
  std::vector<Word> Words() const;  // sorted
  // REQUIRES: every posting names one of so many documents.
  static Bm25 FromWords(std::int64_t documents, std::vector<Word> words);

 private:
  std::int64_t documents_ = 0;
  std::unordered_map<std::string, std::vector<Posting>> postings_;  // by word
};

struct ScoredDocument {
  std::int32_t document = 0;
  float score = 0.0f;
};

// The `count` best, best first, equal scores in order of documents.
std::vector<ScoredDocument> BestFirst(std::vector<ScoredDocument> scored, size_t count);
// The `count` best of those above 0, best first, equal scores in order of documents.
std::vector<ScoredDocument> BestDocuments(std::span<const float> scores, size_t count);

// Words of a text, as they are compared: runs of letters, marks, digits and underscores, in
// lower case. Ideographs stand alone.
std::vector<std::string> WordsOf(std::string_view text);

}  // namespace banyan
