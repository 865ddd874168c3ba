// From a question to documents with their relevance: candidates by one signal of an index,
// relevance by another, a reranker beside it if there is one. The same relevance for documents
// that came with the question.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/retrieval.h"

namespace banyan {

// How much a document matters for a question.
struct Judgement {
  double relevance = 0.0;       // r, in (0, 1)
  std::optional<double> score;  // of the signal; nothing: the reranker alone judged
  std::optional<double> logit;  // the reranker's
};

struct RetrieverOptions {
  std::shared_ptr<const DocumentIndex> index;  // may be null
  NamedEncoder encoder, reranker;              // may be null
  Signal candidates = Signal::kBm25;
  int candidate_count = 0;  // 0: `top` where their own signal judges them alone, else more
  int top = 16;             // of the candidates, the most relevant
  // By which documents are judged; nothing: by the reranker alone. With a reranker both are fused.
  std::optional<Signal> relevance = Signal::kBm25;
};

// Any thread may call any method.
class Retriever {
 public:
  // Throws kUsage, kUnsupported and kInput when the options lack what a signal needs.
  explicit Retriever(const RetrieverOptions& options);

  struct Found {
    std::int32_t passage = 0;
    Judgement judgement;
  };
  // Passages of the index, the most relevant first, equal ones as they were found.
  // REQUIRES: there is an index.
  std::vector<Found> Retrieve(const std::string& question) const;
  // Of texts among themselves (which is what BM25 counts).
  std::vector<Judgement> Judge(const std::string& question,
                               std::span<const std::string> texts) const;

 private:
  Query QueryOf(const std::string& question, bool for_candidates) const;
  std::vector<double> ScoresOfTexts(const Query& query, std::span<const std::string> texts) const;
  std::vector<Judgement> Judged(const std::string& question, const std::vector<double>& scores,
                                std::span<const std::string> texts) const;
  size_t CandidateCount() const;

  RetrieverOptions options_;
};

// Scores of retrievers and rerankers → a relevance r in (0, 1), which weighs the documents
// (banyan/request.h).
inline constexpr double kRelevanceMargin = 1e-8;  // r keeps this distance from 0 and 1

double RelevanceOfCosine(double score);  // dense and multi-vector: (s + 1) / 2
double RelevanceOfSparse(double score);  // learned sparse weights: (2 / pi) atan(max(s, 0))
double RelevanceOfBm25(double score);    // (2 / pi) atan(s / 8)
double RelevanceOfLogit(double logit);   // a reranker's: sigmoid
// Both in one: their harmonic mean.
double FusedRelevance(double retrieved, double reranked);

}  // namespace banyan
