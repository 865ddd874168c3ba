#include "retrieve/relevance.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace banyan {
namespace {

double Clip(double r) { return std::clamp(r, kRelevanceMargin, 1.0 - kRelevanceMargin); }

double ShareOfRightAngle(double x) { return 2.0 / std::numbers::pi * std::atan(x); }

}  // namespace

double RelevanceOfCosine(double score) { return Clip((score + 1.0) / 2.0); }
double RelevanceOfSparse(double score) { return Clip(ShareOfRightAngle(std::max(score, 0.0))); }
double RelevanceOfBm25(double score) { return Clip(ShareOfRightAngle(score / 8.0)); }
double RelevanceOfLogit(double logit) { return Clip(1.0 / (1.0 + std::exp(-logit))); }

double FusedRelevance(double retrieved, double reranked) {
  return 2.0 * retrieved * reranked / (retrieved + reranked + kRelevanceMargin);
}

}  // namespace banyan
