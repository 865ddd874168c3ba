// Confidence intervals of scores: the documents are resampled, since slots of one document succeed
// and fail together.
#include <algorithm>
#include <random>

#include "program/extract_score.h"

namespace banyan {
namespace {

constexpr std::uint64_t kSeed = 20240531;

// The same draws for everybody: runs over the same documents can be compared draw by draw.
class Draws {
 public:
  explicit Draws(size_t documents) : documents_(documents), random_(kSeed) {}

  template <typename Visit>
  void Next(const Visit& visit) {
    for (size_t i = 0; i < documents_; ++i) visit(random_() % documents_);
  }

 private:
  size_t documents_;
  std::mt19937_64 random_;
};

// The 2.5th and the 97.5th percentile.
ScoreInterval Middle(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.025), at(0.975)};
}

}  // namespace

ScoreIntervals BootstrapIntervals(const std::vector<DocumentCounts>& documents, int resamples) {
  if (documents.empty()) return {};
  Draws draws(documents.size());
  std::vector<double> strict, partial, labelled, with_nulls, accuracy;
  for (int i = 0; i < resamples; ++i) {
    DocumentCounts sum;
    draws.Next([&](size_t drawn) {
      sum.all += documents[drawn].all;
      sum.labelled += documents[drawn].labelled;
    });
    strict.push_back(sum.all.strict_f1());
    partial.push_back(sum.all.partial_f1());
    labelled.push_back(sum.labelled.f1());
    with_nulls.push_back(sum.all.f1());
    accuracy.push_back(sum.all.accuracy());
  }
  return {Middle(std::move(strict)), Middle(std::move(partial)), Middle(std::move(labelled)),
          Middle(std::move(with_nulls)), Middle(std::move(accuracy))};
}

ScoreInterval BootstrapDifference(const std::vector<DocumentCounts>& one,
                                  const std::vector<DocumentCounts>& other, int resamples) {
  if (one.empty()) return {};
  Draws draws(one.size());
  std::vector<double> differences;
  for (int i = 0; i < resamples; ++i) {
    SlotCounts a, b;
    draws.Next([&](size_t drawn) {
      a += one[drawn].all;
      b += other[drawn].all;
    });
    differences.push_back(a.strict_f1() - b.strict_f1());
  }
  return Middle(std::move(differences));
}

}  // namespace banyan
