// Decisions about bf16 products: recalled, measured or guessed, and kept (products.h).
#include "kernels/cuda/products/products.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/shard_decisions.h"
#include "kernels/cuda/source_hash.h"

namespace banyan {

// The files of decisions/, part of the program.
extern const std::span<const EmbeddedFile> kDecisionTables;

}  // namespace banyan

namespace banyan::cuda {
namespace {

constexpr std::string_view kForms[] = {"float32", "add", "bias", "bf16", "swiglu"};
// Of measuring: some decisions at once, so that a short job with few shapes has them, and then only
// a small share of the time.
constexpr double kAllowance = 0.25;
constexpr double kShareOfTime = 0.02;

// Below this many weights a launch costs more than the product: the plain kernel serves.
constexpr std::int64_t kSmallMatrix = std::int64_t{1} << 18;
// The last row counts of the ranges that get a decision each; the last range has no end. Finer
// where the time changes from bytes to operations and a wave of tiles more or less is felt.
constexpr std::int64_t kRangeTops[] = {4,   8,   16,  32,  64,   96,   128,  192,
                                       256, 384, 512, 768, 1024, 1536, 2048, 4096};

}  // namespace

Products::Products(std::shared_ptr<const Device> device, ProductOptions options)
    : device_(std::move(device)),
      options_(std::move(options)),
      candidates_(device_, options_.fast ? Splitting::kAllowed : Splitting::kNone),
      selection_(device_, options_.fast, candidates_, census_),
      budget_(kAllowance, kShareOfTime, SecondsNow()) {}

void Products::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                        const Target& target) {
  ProductOperands operands = OperandsOf(x, rows, w, target.form);
  operands.out = target.out;
  operands.bias = target.bias;
  operands.scratch = target.scratch;
  if (candidates_.Run(Decide(rows, w, target.form), operands)) return;
  MultiplyBF16(device_->stream, operands);
}

RowRange Products::RangeOf(std::int64_t rows) {
  std::int64_t least = 1;
  for (const std::int64_t top : kRangeTops) {
    if (rows <= top) return {least, top};
    least = top + 1;
  }
  return {least, std::end(kRangeTops)[-1]};
}

void Products::OpenLibrary() {
  if (candidates_.is_open()) return;
  candidates_.Open();
  // Decisions are old as soon as a kernel, or how it is measured, is another one.
  file_ = DecisionFile(
      options_.decisions,
      fmt::format("code {}, {}, {}", kSourceHash, device_->name, candidates_.library_version()));
  if (options_.deciding == Deciding::kByMeasuring) return;
  for (const EmbeddedFile& table : kDecisionTables) {
    shipped_.merge(ParseDecisions(table.bytes, device_->name));
  }
}

std::string Products::KeyOf(const MatrixShape& shape, RowRange range) const {
  const auto [outputs, inner, form] = shape;
  return banyan::TextOf(ProductKey{outputs, inner, kForms[static_cast<int>(form)], range.most,
                                   options_.fast ? "fast" : ""});
}

bool Products::MaySettle() const {
  return device_->recording == nullptr && budget_.Allows(SecondsNow());
}

const ProductCandidate& Products::Decide(std::int64_t rows, const DeviceMatrix& w,
                                         ProductForm form) {
  static const ProductCandidate plain;
  if (w.padded_rows * w.stride < kSmallMatrix) return plain;
  RowRange range = RangeOf(rows);
  if (range.least > range.most) range = RangeOf(range.most);  // beyond the last: as the last
  const auto key = std::pair(MatrixShape(w.padded_rows, w.stride, form), range.most);
  auto it = decisions_.find(key);
  if (it == decisions_.end()) {
    it = decisions_.emplace(key, MakeDecision(key.first, range, w)).first;
  } else if (it->second.guessed && MaySettle()) {
    Settle(key.first, range, w, it->second);
  }
  if (it->second.guessed) ++guesses_launched_;
  return it->second.candidate;
}

void Products::Settle(const MatrixShape& shape, RowRange range, const DeviceMatrix& w,
                      Decision& guess) {
  const std::string key = KeyOf(shape, range);
  const auto other = OfOtherShard(key, range, w, std::get<2>(shape));
  if (other && !other->guessed) {
    guess = *other;
    return;
  }
  if (const auto measured = Measure(shape, range, w)) guess.candidate = *measured;
  guess.guessed = false;
  TellOtherShards(key, guess);
}

std::optional<Products::Decision> Products::OfOtherShard(const std::string& key, RowRange range,
                                                         const DeviceMatrix& w, ProductForm form) {
  if (!options_.of_shard) return std::nullopt;
  const auto found = ShardDecisions::OfProcess().Find(device_->name + key);
  if (!found) return std::nullopt;
  if (found->ordinal != device_->ordinal) {
    ProductTrial trial(device_, w, form, range.most);
    if (!selection_.Admit(found->candidate, range, trial)) return std::nullopt;
  }
  return Decision{found->candidate, found->guessed};
}

void Products::TellOtherShards(const std::string& key, const Decision& decision) const {
  if (!options_.of_shard) return;
  ShardDecisions::OfProcess().Keep(device_->name + key,
                                   {decision.candidate, decision.guessed, device_->ordinal});
}

Products::Decision Products::MakeDecision(const MatrixShape& shape, RowRange range,
                                          const DeviceMatrix& w) {
  const double start = SecondsNow();
  Decision decision;
  try {
    OpenLibrary();
    const ProductForm form = std::get<2>(shape);
    const std::string key = KeyOf(shape, range);
    std::optional<ProductCandidate> known;
    if (const auto other = OfOtherShard(key, range, w, form)) {
      ++census_.decisions;
      return *other;
    }
    if (const auto kept = file_.Find(key); kept && (known = Recall(*kept, range, w, form))) {
      ++census_.recalled;
    } else if (const auto it = shipped_.find(key);
               it != shipped_.end() && (known = Recall(it->second, range, w, form))) {
      ++census_.shipped;
    }
    if (known) {
      decision.candidate = *known;
    } else if (options_.deciding == Deciding::kByMeasuring || budget_.Allows(start)) {
      decision.candidate = Measure(shape, range, w).value_or(ProductCandidate{});
    } else {
      decision = {selection_.Guess(range, w, form), true};
      ++census_.guessed;
    }
    TellOtherShards(key, decision);
  } catch (const Error& error) {
    // No room to compare: the plain kernel has the right bits.
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  ++census_.decisions;
  if (decision.candidate.kind == ProductCandidate::Kind::kPlain) ++census_.plain;
  census_.seconds += SecondsNow() - start;
  return decision;
}

std::optional<ProductCandidate> Products::Measure(const MatrixShape& shape, RowRange range,
                                                  const DeviceMatrix& w) {
  const double start = SecondsNow();
  std::optional<ProductCandidate> candidate;
  try {
    candidate = selection_.Select(range, w, std::get<2>(shape));
    file_.Keep(KeyOf(shape, range), ProductCandidates::TextOf(*candidate));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  budget_.Spend(SecondsNow() - start);
  return candidate;
}

std::optional<ProductCandidate> Products::Recall(const std::string& text, RowRange range,
                                                 const DeviceMatrix& w, ProductForm form) {
  const std::optional<ProductCandidate> candidate = candidates_.Parse(text, form);
  if (!candidate || candidate->kind == ProductCandidate::Kind::kPlain) return candidate;
  ProductTrial trial(device_, w, form, range.most);
  if (!candidates_.CanServe(*candidate, trial.OperandsFor(range.most),
                            trial.OperandsFor(range.least))) {
    return std::nullopt;
  }
  return selection_.Admit(*candidate, range, trial) ? candidate : std::nullopt;
}

std::string Products::Serving(const DeviceMatrix& w, std::int64_t rows, ProductForm form) {
  return ProductCandidates::PortableTextOf(Decide(rows, w, form));
}

std::string Products::Table() const {
  std::map<std::string, std::string> table;
  for (const auto& [key, decision] : decisions_) {
    if (decision.guessed) continue;
    table[KeyOf(key.first, {1, key.second})] =
        ProductCandidates::PortableTextOf(decision.candidate);
  }
  return DecisionText(table, device_->name);
}

bool Products::Ships(std::int64_t outputs, std::int64_t inner, ProductForm form,
                     std::int64_t rows) {
  OpenLibrary();
  return shipped_.contains(KeyOf({outputs, inner, form}, RangeOf(rows)));
}

std::vector<std::string> Products::IllegalShipped() {
  OpenLibrary();
  std::vector<std::string> illegal;
  for (const auto& [key, text] : shipped_) {
    const auto product = ProductKeyOf(key);
    const auto* form =
        product ? std::find(std::begin(kForms), std::end(kForms), product->form) : std::end(kForms);
    bool legal = false;
    if (form != std::end(kForms)) {
      DeviceMatrix w;  // of that shape, without values
      w.rows = w.padded_rows = product->outputs;
      w.columns = w.stride = product->inner;
      const auto which = static_cast<ProductForm>(form - std::begin(kForms));
      const RowRange range = RangeOf(product->most_rows);
      const auto candidate = candidates_.Parse(text, which);
      legal = range.most == product->most_rows && candidate &&
              candidates_.CanServe(*candidate, OperandsOf(nullptr, range.most, w, which),
                                   OperandsOf(nullptr, range.least, w, which));
    }
    if (!legal) illegal.push_back(key + ": " + text);
  }
  return illegal;
}

}  // namespace banyan::cuda
