#include "kernels/cuda/products.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "kernels/cuda/many_rows.h"
#include "kernels/cuda/product_operands.h"

namespace banyan::cuda {
namespace {

// Below this many weights a launch costs more than the product: the plain kernel serves.
constexpr std::int64_t kSmallMatrix = std::int64_t{1} << 18;
// The last row counts of the ranges that get a decision each; the last range has no end. Finer
// where the time changes from bytes to operations and a wave of tiles more or less is felt.
constexpr std::int64_t kRangeTops[] = {4,   8,   16,  32,  64,   96,   128,  192,
                                       256, 384, 512, 768, 1024, 1536, 2048, 4096};
constexpr std::int64_t kMostPlainRows = 64;  // beyond, the plain kernel is not worth timing
constexpr std::int64_t kLeastManyRows = 48;  // with fewer, only the bytes of the weights count
constexpr double kDecisionSeconds = 0.1;     // of a round, after which no more ways are tried
constexpr size_t kFinalists = 6;
// So many of the library's fastest are tried in other clusters. Blocks of a cluster share rows or
// weights: up to 64 rows the choice changed no product of the 8B shape, at 256 three of five.
constexpr size_t kVaried = 5;
constexpr std::int64_t kLeastVariedRows = 128;
// One more whenever our own ways change their speed, or how it is measured: decisions are old then.
constexpr int kWays = 6;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the ways that know no SwiGLU have to do.
ProductOperands ProductOf(const ProductOperands& operands) {
  return operands.form == ProductForm::kSwiGlu ? GateAndUp(operands) : operands;
}

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

Products::Products(std::shared_ptr<const Device> device, ProductOptions options)
    : device_(std::move(device)), options_(options) {}

void Products::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                        const Target& target) {
  ProductOperands operands = OperandsOf(x, rows, w, target.form);
  operands.out = target.out;
  operands.bias = target.bias;
  operands.scratch = target.scratch;
  if (Run(Decide(rows, w, target.form), operands)) return;
  MultiplyBF16(device_->stream, operands);
}

Products::Range Products::RangeOf(std::int64_t rows) {
  std::int64_t least = 1;
  for (const std::int64_t top : kRangeTops) {
    if (rows <= top) return {least, top};
    least = top + 1;
  }
  return {least, std::end(kRangeTops)[-1]};
}

void Products::OpenLibrary() {
  if (library_ != nullptr) return;
  library_ = std::make_unique<ProductLibrary>(device_);
  file_ = DecisionFile(options_.decisions,
                       fmt::format("ways {}, {}, {}", kWays, device_->name, library_->version()));
}

std::string Products::KeyOf(const Shape& shape, Range range) const {
  static constexpr const char* kForms[] = {"wide", "add", "bias", "narrow", "swiglu"};
  const auto [outputs, inner, form] = shape;
  return fmt::format("{} x {} {}, {} rows{}", outputs, inner, kForms[static_cast<int>(form)],
                     range.most, options_.fast ? ", fast" : "");
}

std::string Products::TextOf(const Way& way) {
  switch (way.kind) {
    case Way::Kind::kPlain:
      return "plain";
    case Way::Kind::kFewRows:
      return "few rows, " + std::string(kFewRowsNames[static_cast<int>(way.variant)]);
    case Way::Kind::kLibrary:
      return "cublasLt " + ProductLibrary::TextOf(way.algorithm);
    case Way::Kind::kManyRows:
      return "many rows";
  }
  return "";
}

std::optional<Products::Way> Products::WayOf(const std::string& text) {
  if (text == TextOf({})) return Way{};
  if (text == "many rows") return Way{Way::Kind::kManyRows, {}, {}};
  for (const FewRowsVariant variant : kFewRowsVariants) {
    const Way way{Way::Kind::kFewRows, variant, {}};
    if (text == TextOf(way)) return way;
  }
  if (!text.starts_with("cublasLt ")) return std::nullopt;
  const auto algorithm = ProductLibrary::AlgorithmOf(text.substr(9));
  if (!algorithm) return std::nullopt;
  return Way{Way::Kind::kLibrary, {}, *algorithm};
}

const Products::Way& Products::Decide(std::int64_t rows, const DeviceMatrix& w, ProductForm form) {
  static const Way plain;
  if (w.padded_rows * w.stride < kSmallMatrix) return plain;
  Range range = RangeOf(rows);
  if (range.least > range.most) range = RangeOf(range.most);  // beyond the last: as the last
  const auto key = std::pair(Shape(w.padded_rows, w.stride, form), range.most);
  const auto it = ways_.find(key);
  if (it != ways_.end()) return it->second;
  const double start = Now();
  Way way;
  try {
    OpenLibrary();
    if (const std::optional<Way> recalled = Recall(range, w, form)) {
      way = *recalled;
      ++census_.recalled;
    } else {
      way = Select(range, w, form);
      file_.Keep(KeyOf(key.first, range), TextOf(way));
    }
  } catch (const Error& error) {
    // No room to compare: the plain kernel has the right bits.
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  ++census_.decisions;
  if (way.kind == Way::Kind::kPlain) ++census_.plain;
  census_.seconds += Now() - start;
  return ways_.emplace(key, way).first->second;
}

std::vector<Products::Way> Products::Candidates(Range range, const ProductTrial& trial,
                                                const Shape& shape) {
  std::vector<Way> ways;
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  for (const FewRowsVariant variant : FewRowsVariantsFor(most.shape)) {
    ways.push_back({Way::Kind::kFewRows, variant, {}});
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

std::optional<Products::Way> Products::Recall(Range range, const DeviceMatrix& w,
                                              ProductForm form) {
  const auto text = file_.Find(KeyOf(Shape(w.padded_rows, w.stride, form), range));
  if (!text) return std::nullopt;
  const std::optional<Way> way = WayOf(*text);
  if (!way || way->kind == Way::Kind::kPlain) return way;
  ProductTrial trial(device_, w, form, range.most);
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  if (way->kind == Way::Kind::kFewRows && !FewRowsCanServe(way->variant, most.shape)) {
    return std::nullopt;
  }
  if (way->kind == Way::Kind::kLibrary &&
      !(library_->Supports(way->algorithm, most) && library_->Supports(way->algorithm, least))) {
    return std::nullopt;
  }
  if (way->kind == Way::Kind::kManyRows && !ManyRowsCanServe(trial.OperandsFor(range.most))) {
    return std::nullopt;
  }
  return Admit(*way, range, trial) ? way : std::nullopt;
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

bool Products::Run(const Way& way, const ProductOperands& operands) {
  if (!RunProduct(way, way.kind == Way::Kind::kManyRows ? operands : ProductOf(operands))) {
    return false;
  }
  if (operands.form == ProductForm::kSwiGlu && way.kind != Way::Kind::kManyRows) {
    ApplySwiGlu(device_->stream, operands);
  }
  return true;
}

bool Products::RunProduct(const Way& way, const ProductOperands& operands) {
  switch (way.kind) {
    case Way::Kind::kPlain:
      MultiplyBF16(device_->stream, operands);
      return true;
    case Way::Kind::kFewRows:
      MultiplyFewRows(device_->stream, operands, way.variant);
      return true;
    case Way::Kind::kLibrary:
      return library_->Run(way.algorithm, operands);
    case Way::Kind::kManyRows:
      // Another matrix of the same padded shape may have another number of gates.
      if (!ManyRowsCanServe(operands)) return false;
      MultiplyManyRows(device_->stream, operands);
      return true;
  }
  return false;
}

std::string Products::Serving(const DeviceMatrix& w, std::int64_t rows, ProductForm form) {
  const Way& way = Decide(rows, w, form);
  if (way.kind == Way::Kind::kLibrary) return ProductLibrary::Describe(way.algorithm);
  return TextOf(way);
}

}  // namespace banyan::cuda
