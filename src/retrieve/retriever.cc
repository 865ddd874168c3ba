// Retrieval of candidates and their relevance.
#include "retrieve/retriever.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "retrieve/bm25.h"
#include "retrieve/vector_search.h"

namespace banyan {
namespace {

double Clip(double r) { return std::clamp(r, kRelevanceMargin, 1.0 - kRelevanceMargin); }

double ShareOfRightAngle(double x) { return 2.0 / std::numbers::pi * std::atan(x); }

double RelevanceOf(Signal signal, double score) {
  switch (signal) {
    case Signal::kBm25:
      return RelevanceOfBm25(score);
    case Signal::kSparse:
      return RelevanceOfSparse(score);
    default:
      return RelevanceOfCosine(score);
  }
}

void CheckEncoder(Signal signal, const NamedEncoder& encoder) {
  if (signal == Signal::kBm25) return;
  const char* name = SignalName(signal);
  if (!encoder) {
    Throw(ErrorKind::kUsage, "the signal {} needs an encoder (--encoder MODEL)", name);
  }
  if (!encoder->embeds()) {
    Throw(ErrorKind::kUnsupported, "--encoder: a reranker has no vectors; it goes to --reranker");
  }
  const bool there = signal == Signal::kDense ||
                     (signal == Signal::kSparse ? encoder->has_sparse() : encoder->has_colbert());
  if (!there) {
    Throw(ErrorKind::kUnsupported, "the signal {}: the encoder has no such head", name);
  }
}

}  // namespace

double RelevanceOfCosine(double score) { return Clip((score + 1.0) / 2.0); }
double RelevanceOfSparse(double score) { return Clip(ShareOfRightAngle(std::max(score, 0.0))); }
double RelevanceOfBm25(double score) { return Clip(ShareOfRightAngle(score / 8.0)); }
double RelevanceOfLogit(double logit) { return Clip(1.0 / (1.0 + std::exp(-logit))); }

double FusedRelevance(double retrieved, double reranked) {
  return 2.0 * retrieved * reranked / (retrieved + reranked + kRelevanceMargin);
}

Retriever::Retriever(const RetrieverOptions& options) : options_(options) {
  if (!options_.relevance && !options_.reranker) {
    Throw(ErrorKind::kUsage, "--relevance rerank needs a reranker (--reranker MODEL)");
  }
  if (options_.reranker && !options_.reranker->reranks()) {
    Throw(ErrorKind::kUnsupported,
          "--reranker: the model gives vectors, no logit of a pair; it goes to --encoder");
  }
  if (options_.relevance) CheckEncoder(*options_.relevance, options_.encoder);
  if (!options_.index) return;
  options_.index->Check(options_.candidates, options_.encoder);
  const bool kept = options_.relevance && *options_.relevance != Signal::kMultiVector;
  if (kept) options_.index->Check(*options_.relevance, options_.encoder);
}

size_t Retriever::CandidateCount() const {
  constexpr int kMoreToJudge = 4;
  const bool judged_already = options_.relevance == options_.candidates && !options_.reranker;
  if (options_.candidate_count > 0) return static_cast<size_t>(options_.candidate_count);
  return static_cast<size_t>(options_.top) * (judged_already ? 1 : kMoreToJudge);
}

Query Retriever::QueryOf(const std::string& question, bool for_candidates) const {
  Query query{question, {}};
  const auto wants = [&](Signal signal) {
    return options_.relevance == signal || (for_candidates && options_.candidates == signal);
  };
  EmbedOptions parts;
  parts.sparse = wants(Signal::kSparse);
  parts.colbert = wants(Signal::kMultiVector);
  if (!wants(Signal::kDense) && !parts.sparse && !parts.colbert) return query;
  const std::vector<TokenId> tokens = EncoderTokens(*options_.encoder.encoder, question);
  query.embedding = std::move(options_.encoder->Embed(std::span(&tokens, 1), parts).front());
  return query;
}

std::vector<Retriever::Found> Retriever::Retrieve(const std::string& question) const {
  const DocumentIndex& index = *options_.index;
  const Query query = QueryOf(question, /*for_candidates=*/true);
  std::vector<std::int32_t> passages;
  for (const FoundPassage& found : index.Search(options_.candidates, query, CandidateCount())) {
    passages.push_back(found.passage);
  }
  std::vector<std::string> texts;
  if (options_.reranker || options_.relevance == Signal::kMultiVector) {
    for (const std::int32_t p : passages) texts.push_back(index.at(p).Shown());
  }
  std::vector<double> scores;
  if (options_.relevance == Signal::kMultiVector) {
    scores = ScoresOfTexts(query, texts);
  } else if (options_.relevance) {
    scores = index.Scores(*options_.relevance, query, passages);
  }
  const std::vector<Judgement> judged = Judged(question, scores, texts);
  std::vector<Found> found;
  for (size_t i = 0; i < passages.size(); ++i) found.push_back({passages[i], judged[i]});
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Found& one) { return one.judgement.relevance; });
  found.resize(std::min(found.size(), static_cast<size_t>(options_.top)));
  return found;
}

std::vector<Judgement> Retriever::Judge(const std::string& question,
                                        std::span<const std::string> texts) const {
  std::vector<double> scores;
  if (options_.relevance) {
    scores = ScoresOfTexts(QueryOf(question, /*for_candidates=*/false), texts);
  }
  return Judged(question, scores, texts);
}

// By the signal of relevance.
std::vector<double> Retriever::ScoresOfTexts(const Query& query,
                                             std::span<const std::string> texts) const {
  std::vector<double> scores;
  if (texts.empty()) return scores;
  const Signal signal = *options_.relevance;
  if (signal == Signal::kBm25) {
    std::vector<std::vector<std::string>> words;
    for (const std::string& text : texts) words.push_back(WordsOf(text));
    const std::vector<float> found = Bm25(words, Bm25Options()).Scores(WordsOf(query.text));
    return {found.begin(), found.end()};
  }
  std::vector<std::vector<TokenId>> tokens;
  for (const std::string& text : texts)
    tokens.push_back(EncoderTokens(*options_.encoder.encoder, text));
  EmbedOptions parts;
  parts.sparse = signal == Signal::kSparse;
  parts.colbert = signal == Signal::kMultiVector;
  for (const Embedding& document : options_.encoder->Embed(tokens, parts)) {
    if (signal == Signal::kDense) {
      scores.push_back(InnerProduct(document.dense, query.embedding.dense));
    } else if (signal == Signal::kSparse) {
      scores.push_back(SparseScore(query.embedding.sparse, document.sparse));
    } else {
      scores.push_back(MultiVectorScore(query.embedding.colbert, document.colbert));
    }
  }
  return scores;
}

// `scores`: of the signal of relevance, or none; `texts`: for the reranker, if there is one.
std::vector<Judgement> Retriever::Judged(const std::string& question,
                                         const std::vector<double>& scores,
                                         std::span<const std::string> texts) const {
  std::vector<Judgement> judged;
  for (const double score : scores) {
    Judgement& one = judged.emplace_back();
    one.score = score;
    one.relevance = RelevanceOf(*options_.relevance, score);
  }
  if (!options_.reranker || texts.empty()) return judged;
  std::vector<std::vector<TokenId>> pairs;
  for (const std::string& text : texts) {
    pairs.push_back(RerankerTokens(*options_.reranker.encoder, question, text));
  }
  const std::vector<float> logits = options_.reranker->Rerank(pairs);
  judged.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double reranked = RelevanceOfLogit(logits[i]);
    judged[i].logit = logits[i];
    judged[i].relevance =
        options_.relevance ? FusedRelevance(judged[i].relevance, reranked) : reranked;
  }
  return judged;
}

}  // namespace banyan
