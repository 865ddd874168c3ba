// Candidates for bf16 products, their times and bits (product_selection.h).
#include "kernels/cuda/products/product_selection.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "base/error.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kMostPlainRows = 64;  // beyond, the plain kernel is not worth timing
constexpr std::int64_t kLeastManyRows = 48;  // with fewer, only the bytes of the weights count
constexpr double kDecisionSeconds = 0.1;     // of a round, after which no more candidates are tried
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

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// --- Candidates ---------------------------------------------------------------------------------
void ProductCandidates::Open() {
  if (library_ == nullptr) library_ = std::make_unique<ProductLibrary>(device_);
}

std::vector<ProductCandidate> ProductCandidates::For(RowRange range, const ProductTrial& trial,
                                                     const MatrixShape& shape) {
  std::vector<ProductCandidate> candidates;
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  if (FewRowsCanServe(most.shape)) {
    for (const RingSize ring : kRingSizes) {
      candidates.push_back({ProductCandidate::Kind::kFewRows, ring, {}});
    }
  }
  if (range.most <= kMostPlainRows) candidates.push_back({});
  if (range.most >= kLeastManyRows && ManyRowsCanServe(trial.OperandsFor(range.most))) {
    candidates.push_back({ProductCandidate::Kind::kManyRows, {}, {}});
  }
  std::vector<LibraryOffer>& offers = offers_[shape];
  if (offers.empty()) offers = library_->Offers(most.shape, most.form, splitting_);
  std::vector<const LibraryOffer*> nearest;
  for (const LibraryOffer& offer : offers) nearest.push_back(&offer);
  std::stable_sort(nearest.begin(), nearest.end(), [&](const auto* a, const auto* b) {
    return Distance(*a, range.most) < Distance(*b, range.most);
  });
  for (const LibraryOffer* offer : nearest) {
    if (library_->Supports(offer->algorithm, most) && library_->Supports(offer->algorithm, least)) {
      candidates.push_back({ProductCandidate::Kind::kLibrary, {}, offer->algorithm});
    }
  }
  return candidates;
}

std::vector<ProductCandidate> ProductCandidates::InOtherClusters(
    const std::vector<TimedCandidate>& timed, RowRange range, const ProductTrial& trial) {
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  std::vector<ProductCandidate> candidates;
  if (range.most < kLeastVariedRows) return candidates;
  std::set<std::string> known;
  for (const TimedCandidate& other : timed) known.insert(TextOf(other.candidate));
  size_t count = 0;
  for (const TimedCandidate& fast : timed) {
    if (fast.candidate.kind != ProductCandidate::Kind::kLibrary) continue;
    if (++count > kVaried) break;
    for (const LibraryAlgorithm& algorithm :
         ProductLibrary::InOtherClusters(fast.candidate.algorithm)) {
      const ProductCandidate candidate{ProductCandidate::Kind::kLibrary, {}, algorithm};
      if (library_->Supports(algorithm, most) && library_->Supports(algorithm, least) &&
          known.insert(TextOf(candidate)).second) {
        candidates.push_back(candidate);
      }
    }
  }
  return candidates;
}

bool ProductCandidates::CanServe(const ProductCandidate& candidate, const ProductOperands& most,
                                 const ProductOperands& least) {
  switch (candidate.kind) {
    case ProductCandidate::Kind::kPlain:
      return true;
    case ProductCandidate::Kind::kFewRows:
      return FewRowsCanServe(ProductOf(most).shape);
    case ProductCandidate::Kind::kLibrary:
      return library_->Supports(candidate.algorithm, ProductOf(most)) &&
             library_->Supports(candidate.algorithm, ProductOf(least));
    case ProductCandidate::Kind::kManyRows:
      return ManyRowsCanServe(most);
  }
  return false;
}

bool ProductCandidates::Run(const ProductCandidate& candidate, const ProductOperands& operands) {
  if (!RunProduct(candidate, candidate.kind == ProductCandidate::Kind::kManyRows
                                 ? operands
                                 : ProductOf(operands))) {
    return false;
  }
  if (operands.form == ProductForm::kSwiGlu &&
      candidate.kind != ProductCandidate::Kind::kManyRows) {
    ApplySwiGlu(device_->stream, operands);
  }
  return true;
}

bool ProductCandidates::RunProduct(const ProductCandidate& candidate,
                                   const ProductOperands& operands) {
  switch (candidate.kind) {
    case ProductCandidate::Kind::kPlain:
      MultiplyBF16(device_->stream, operands);
      return true;
    case ProductCandidate::Kind::kFewRows:
      MultiplyFewRows(device_->stream, operands, candidate.ring);
      return true;
    case ProductCandidate::Kind::kLibrary:
      return library_->Run(candidate.algorithm, operands);
    case ProductCandidate::Kind::kManyRows:
      // Another matrix of the same padded shape may have another number of gates.
      if (!ManyRowsCanServe(operands)) return false;
      MultiplyManyRows(device_->stream, operands);
      return true;
  }
  return false;
}

std::string ProductCandidates::TextOf(const ProductCandidate& candidate) {
  switch (candidate.kind) {
    case ProductCandidate::Kind::kPlain:
      return "plain";
    case ProductCandidate::Kind::kFewRows:
      return "few rows, " + std::string(kRingNames[static_cast<int>(candidate.ring)]);
    case ProductCandidate::Kind::kLibrary:
      return "cublasLt " + ProductLibrary::TextOf(candidate.algorithm);
    case ProductCandidate::Kind::kManyRows:
      return "many rows";
  }
  return "";
}

std::string ProductCandidates::PortableTextOf(const ProductCandidate& candidate) {
  if (candidate.kind != ProductCandidate::Kind::kLibrary) return TextOf(candidate);
  return "cublasLt " + banyan::TextOf(ProductLibrary::NumbersOf(candidate.algorithm));
}

std::optional<ProductCandidate> ProductCandidates::Parse(const std::string& text,
                                                         ProductForm form) {
  if (text == TextOf({})) return ProductCandidate{};
  if (text == "many rows") return ProductCandidate{ProductCandidate::Kind::kManyRows, {}, {}};
  for (const RingSize ring : kRingSizes) {
    const ProductCandidate candidate{ProductCandidate::Kind::kFewRows, ring, {}};
    if (text == TextOf(candidate)) return candidate;
  }
  if (!text.starts_with("cublasLt ")) return std::nullopt;
  auto algorithm = ProductLibrary::AlgorithmOf(text.substr(9));
  if (!algorithm) {
    const auto numbers = AlgorithmNumbersOf(std::string_view(text).substr(9));
    if (numbers) algorithm = library_->AlgorithmOf(*numbers, form);
  }
  if (!algorithm) return std::nullopt;
  return ProductCandidate{ProductCandidate::Kind::kLibrary, {}, *algorithm};
}

// --- The choice among them ----------------------------------------------------------------------
void ProductSelection::TimeShortly(const std::vector<ProductCandidate>& candidates,
                                   ProductTrial& trial, std::vector<TimedCandidate>& timed) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double best = timed.empty() ? kNever : timed.front().seconds;
  const double start = SecondsNow();
  for (const ProductCandidate& candidate : candidates) {
    if (SecondsNow() - start > kDecisionSeconds && best < 1.0) break;
    ++census_.candidates;
    // Algorithms that the library did not propose for this shape may fail in any manner.
    const auto run = [&](const ProductOperands& operands) {
      try {
        return candidates_.Run(candidate, operands);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kLimit) throw;
        return false;
      }
    };
    const double seconds = trial.Seconds(run, 2, 1.3 * best);
    best = std::min(best, seconds);
    if (seconds < kNever) timed.push_back({candidate, seconds});
  }
  std::stable_sort(
      timed.begin(), timed.end(),
      [](const TimedCandidate& a, const TimedCandidate& b) { return a.seconds < b.seconds; });
}

bool ProductSelection::Admit(const ProductCandidate& candidate, RowRange range,
                             ProductTrial& trial) {
  if (candidate.kind == ProductCandidate::Kind::kPlain) return true;
  if (fast_ && candidate.kind == ProductCandidate::Kind::kLibrary) return true;
  const auto run = [&](const ProductOperands& operands) {
    return candidates_.Run(candidate, operands);
  };
  ++census_.compared;
  const bool equal = trial.HasOurBits(run, range.most) && trial.HasOurBits(run, range.least);
  if (equal) ++census_.admitted;
  return equal;
}

// Our own kernels where they can serve, else what the library's heuristics would take.
ProductCandidate ProductSelection::Guess(RowRange range, const DeviceMatrix& w, ProductForm form) {
  ProductTrial trial(device_, w, form, range.most);
  int tries = 0;
  for (const ProductCandidate& candidate :
       candidates_.For(range, trial, MatrixShape(w.padded_rows, w.stride, form))) {
    if (candidate.kind == ProductCandidate::Kind::kPlain) continue;
    if (Admit(candidate, range, trial)) return candidate;
    if (++tries == kMostGuesses) break;
  }
  return {};
}

ProductCandidate ProductSelection::Select(RowRange range, const DeviceMatrix& w, ProductForm form) {
  ProductTrial trial(device_, w, form, range.most);
  const MatrixShape shape(w.padded_rows, w.stride, form);
  std::vector<TimedCandidate> all;
  TimeShortly(candidates_.For(range, trial, shape), trial, all);
  TimeShortly(candidates_.InOtherClusters(all, range, trial), trial, all);
  std::vector<TimedCandidate> finalists;
  for (const TimedCandidate& timed : all) {
    if (Admit(timed.candidate, range, trial)) finalists.push_back(timed);
    if (finalists.size() == kFinalists) break;
  }
  ProductCandidate best;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (const TimedCandidate& timed : finalists) {
    if (timed.seconds > 1.2 * finalists.front().seconds) break;
    const auto run = [&](const ProductOperands& operands) {
      return candidates_.Run(timed.candidate, operands);
    };
    const double seconds = trial.Seconds(run, 9, 1e9);
    if (seconds < best_seconds) {
      best = timed.candidate;
      best_seconds = seconds;
    }
  }
  return best;
}

}  // namespace banyan::cuda
