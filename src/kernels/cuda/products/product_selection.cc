// How Products chooses a way: who may serve, the times of all, and the bits of the fastest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "kernels/cuda/products/many_rows.h"
#include "kernels/cuda/products/product_operands.h"
#include "kernels/cuda/products/products.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kMostPlainRows = 64;  // beyond, the plain kernel is not worth timing
constexpr std::int64_t kLeastManyRows = 48;  // with fewer, only the bytes of the weights count
constexpr double kDecisionSeconds = 0.1;     // of a round, after which no more ways are tried
constexpr size_t kFinalists = 6;
constexpr int kMostGuesses = 8;  // of which none had our bits
// So many of the library's fastest are tried in other clusters. Blocks of a cluster share rows or
// weights: at 64 and 128 rows of the 8B shape that gained nothing, at 256 in three of five
// products.
constexpr size_t kVaried = 5;
constexpr std::int64_t kLeastVariedRows = 128;

// How far from `rows` the library was asked when it proposed this, in doublings.
double Distance(const LibraryOffer& offer, std::int64_t rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t asked : offer.proposed_for) {
    least = std::min(least,
                     std::fabs(std::log2(static_cast<double>(asked) / static_cast<double>(rows))));
  }
  return least;
}

}  // namespace

std::vector<Products::Way> Products::Candidates(Range range, const ProductTrial& trial,
                                                const Shape& shape) {
  std::vector<Way> ways;
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  if (FewRowsCanServe(most.shape)) {
    for (const RingSize ring : kRingSizes) ways.push_back({Way::Kind::kFewRows, ring, {}});
  }
  if (range.most <= kMostPlainRows) ways.push_back({});
  if (range.most >= kLeastManyRows && ManyRowsCanServe(trial.OperandsFor(range.most))) {
    ways.push_back({Way::Kind::kManyRows, {}, {}});
  }
  std::vector<LibraryOffer>& offers = offers_[shape];
  if (offers.empty()) {
    offers = library_->Offers(most.shape, most.form,
                              options_.fast ? Splitting::kAllowed : Splitting::kNone);
  }
  std::vector<const LibraryOffer*> nearest;
  for (const LibraryOffer& offer : offers) nearest.push_back(&offer);
  std::stable_sort(nearest.begin(), nearest.end(), [&](const auto* a, const auto* b) {
    return Distance(*a, range.most) < Distance(*b, range.most);
  });
  for (const LibraryOffer* offer : nearest) {
    if (library_->Supports(offer->algorithm, most) && library_->Supports(offer->algorithm, least)) {
      ways.push_back({Way::Kind::kLibrary, {}, offer->algorithm});
    }
  }
  return ways;
}

void Products::TimeShortly(const std::vector<Way>& ways, ProductTrial& trial,
                           std::vector<TimedWay>& timed) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double best = timed.empty() ? kNever : timed.front().seconds;
  const double start = Now();
  for (const Way& way : ways) {
    if (Now() - start > kDecisionSeconds && best < 1.0) break;
    ++census_.candidates;
    // What the library was not asked to propose may fail in ways of its own.
    const auto run = [&](const ProductOperands& operands) {
      try {
        return Run(way, operands);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kLimit) throw;
        return false;
      }
    };
    const double seconds = trial.Seconds(run, 2, 1.3 * best);
    best = std::min(best, seconds);
    if (seconds < kNever) timed.push_back({way, seconds});
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const TimedWay& a, const TimedWay& b) { return a.seconds < b.seconds; });
}

std::vector<Products::Way> Products::InOtherClusters(const std::vector<TimedWay>& timed,
                                                     Range range, const ProductTrial& trial) {
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  std::vector<Way> ways;
  if (range.most < kLeastVariedRows) return ways;
  std::set<std::string> known;
  for (const TimedWay& other : timed) known.insert(TextOf(other.way));
  size_t count = 0;
  for (const TimedWay& fast : timed) {
    if (fast.way.kind != Way::Kind::kLibrary) continue;
    if (++count > kVaried) break;
    for (const LibraryAlgorithm& algorithm : ProductLibrary::InOtherClusters(fast.way.algorithm)) {
      const Way way{Way::Kind::kLibrary, {}, algorithm};
      if (library_->Supports(algorithm, most) && library_->Supports(algorithm, least) &&
          known.insert(TextOf(way)).second) {
        ways.push_back(way);
      }
    }
  }
  return ways;
}

bool Products::Admit(const Way& way, Range range, ProductTrial& trial) {
  if (way.kind == Way::Kind::kPlain) return true;
  if (options_.fast && way.kind == Way::Kind::kLibrary) return true;
  const auto run = [&](const ProductOperands& operands) { return Run(way, operands); };
  ++census_.compared;
  const bool equal = trial.HasOurBits(run, range.most) && trial.HasOurBits(run, range.least);
  if (equal) ++census_.admitted;
  return equal;
}

// Our own kernels where they can serve, else what the library's heuristics would take.
Products::Way Products::Guess(Range range, const DeviceMatrix& w, ProductForm form) {
  ProductTrial trial(device_, w, form, range.most);
  int tries = 0;
  for (const Way& way : Candidates(range, trial, Shape(w.padded_rows, w.stride, form))) {
    if (way.kind == Way::Kind::kPlain) continue;
    if (Admit(way, range, trial)) return way;
    if (++tries == kMostGuesses) break;
  }
  return {};
}

Products::Way Products::Select(Range range, const DeviceMatrix& w, ProductForm form) {
  ProductTrial trial(device_, w, form, range.most);
  const Shape shape(w.padded_rows, w.stride, form);
  std::vector<TimedWay> all;
  TimeShortly(Candidates(range, trial, shape), trial, all);
  TimeShortly(InOtherClusters(all, range, trial), trial, all);
  std::vector<TimedWay> finalists;
  for (const TimedWay& timed : all) {
    if (Admit(timed.way, range, trial)) finalists.push_back(timed);
    if (finalists.size() == kFinalists) break;
  }
  Way best;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (const TimedWay& timed : finalists) {
    if (timed.seconds > 1.2 * finalists.front().seconds) break;
    const auto run = [&](const ProductOperands& operands) { return Run(timed.way, operands); };
    const double seconds = trial.Seconds(run, 9, 1e9);
    if (seconds < best_seconds) {
      best = timed.way;
      best_seconds = seconds;
    }
  }
  return best;
}

}  // namespace banyan::cuda
