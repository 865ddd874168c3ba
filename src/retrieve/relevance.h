// From scores of retrievers and rerankers to a relevance r in (0, 1), which weighs experts
// (banyan/panel.h).
#pragma once

namespace banyan {

inline constexpr double kRelevanceMargin = 1e-8;  // r stays so far away from 0 and 1

double RelevanceOfCosine(double score);  // dense and multi-vector: (s + 1) / 2
double RelevanceOfSparse(double score);  // learned sparse weights: (2 / pi) atan(max(s, 0))
double RelevanceOfBm25(double score);    // (2 / pi) atan(s / 8)
double RelevanceOfLogit(double logit);   // a reranker's: sigmoid
// Both in one: their harmonic mean.
double FusedRelevance(double retrieved, double reranked);

}  // namespace banyan
