#include "kernels/cuda/products/products.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <string_view>

#include "base/embedded_file.h"
#include "base/error.h"
#include "kernels/cuda/products/many_rows.h"
#include "kernels/cuda/products/product_operands.h"
#include "kernels/cuda/source_hash.h"

namespace banyan {

// The files of decisions/, part of the program.
extern const std::span<const EmbeddedFile> kDecisionTables;

}  // namespace banyan

namespace banyan::cuda {
namespace {

constexpr std::string_view kForms[] = {"float32", "add", "bias", "bf16", "swiglu"};
// Of measuring: some decisions at once, so that a short job with few shapes has them, and then as
// much of the time as nobody notices.
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
      budget_(kAllowance, kShareOfTime, Now()) {}

void Products::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                        const Target& target) {
  ProductOperands operands = OperandsOf(x, rows, w, target.form);
  operands.out = target.out;
  operands.bias = target.bias;
  operands.scratch = target.scratch;
  if (Run(Decide(rows, w, target.form), operands)) return;
  MultiplyBF16(device_->stream, operands);
}

double Products::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  // Decisions are old as soon as a kernel, or how it is measured, is another one.
  file_ = DecisionFile(options_.decisions, fmt::format("code {}, {}, {}", kSourceHash,
                                                       device_->name, library_->version()));
  if (options_.deciding == Deciding::kByMeasuring) return;
  for (const EmbeddedFile& table : kDecisionTables) {
    shipped_.merge(ParseDecisions(table.bytes, device_->name));
  }
}

std::string Products::KeyOf(const Shape& shape, Range range) const {
  const auto [outputs, inner, form] = shape;
  return banyan::TextOf(ProductKey{outputs, inner, kForms[static_cast<int>(form)], range.most,
                                   options_.fast ? "fast" : ""});
}

std::string Products::TextOf(const Way& way) {
  switch (way.kind) {
    case Way::Kind::kPlain:
      return "plain";
    case Way::Kind::kFewRows:
      return "few rows, " + std::string(kRingNames[static_cast<int>(way.ring)]);
    case Way::Kind::kLibrary:
      return "cublasLt " + ProductLibrary::TextOf(way.algorithm);
    case Way::Kind::kManyRows:
      return "many rows";
  }
  return "";
}

std::string Products::PortableTextOf(const Way& way) {
  if (way.kind != Way::Kind::kLibrary) return TextOf(way);
  return "cublasLt " + banyan::TextOf(ProductLibrary::NumbersOf(way.algorithm));
}

std::optional<Products::Way> Products::WayOf(const std::string& text, ProductForm form) {
  if (text == TextOf({})) return Way{};
  if (text == "many rows") return Way{Way::Kind::kManyRows, {}, {}};
  for (const RingSize ring : kRingSizes) {
    const Way way{Way::Kind::kFewRows, ring, {}};
    if (text == TextOf(way)) return way;
  }
  if (!text.starts_with("cublasLt ")) return std::nullopt;
  auto algorithm = ProductLibrary::AlgorithmOf(text.substr(9));
  if (!algorithm) {
    const auto numbers = AlgorithmNumbersOf(std::string_view(text).substr(9));
    if (numbers) algorithm = library_->AlgorithmOf(*numbers, form);
  }
  if (!algorithm) return std::nullopt;
  return Way{Way::Kind::kLibrary, {}, *algorithm};
}

bool Products::MaySettle() const { return device_->recording == nullptr && budget_.Allows(Now()); }

const Products::Way& Products::Decide(std::int64_t rows, const DeviceMatrix& w, ProductForm form) {
  static const Way plain;
  if (w.padded_rows * w.stride < kSmallMatrix) return plain;
  Range range = RangeOf(rows);
  if (range.least > range.most) range = RangeOf(range.most);  // beyond the last: as the last
  const auto key = std::pair(Shape(w.padded_rows, w.stride, form), range.most);
  auto it = decisions_.find(key);
  if (it == decisions_.end()) {
    it = decisions_.emplace(key, MakeDecision(key.first, range, w)).first;
  } else if (it->second.guessed && MaySettle()) {
    if (const auto measured = Measure(key.first, range, w)) it->second.way = *measured;
    it->second.guessed = false;
  }
  if (it->second.guessed) ++guesses_launched_;
  return it->second.way;
}

Products::Decision Products::MakeDecision(const Shape& shape, Range range, const DeviceMatrix& w) {
  const double start = Now();
  Decision decision;
  try {
    OpenLibrary();
    const ProductForm form = std::get<2>(shape);
    const std::string key = KeyOf(shape, range);
    std::optional<Way> known;
    if (const auto kept = file_.Find(key); kept && (known = Recall(*kept, range, w, form))) {
      ++census_.recalled;
    } else if (const auto it = shipped_.find(key);
               it != shipped_.end() && (known = Recall(it->second, range, w, form))) {
      ++census_.shipped;
    }
    if (known) {
      decision.way = *known;
    } else if (options_.deciding == Deciding::kByMeasuring || budget_.Allows(start)) {
      decision.way = Measure(shape, range, w).value_or(Way{});
    } else {
      decision = {Guess(range, w, form), true};
      ++census_.guessed;
    }
  } catch (const Error& error) {
    // No room to compare: the plain kernel has the right bits.
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  ++census_.decisions;
  if (decision.way.kind == Way::Kind::kPlain) ++census_.plain;
  census_.seconds += Now() - start;
  return decision;
}

std::optional<Products::Way> Products::Measure(const Shape& shape, Range range,
                                               const DeviceMatrix& w) {
  const double start = Now();
  std::optional<Way> way;
  try {
    way = Select(range, w, std::get<2>(shape));
    file_.Keep(KeyOf(shape, range), TextOf(*way));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  budget_.Spend(Now() - start);
  return way;
}

std::optional<Products::Way> Products::Recall(const std::string& text, Range range,
                                              const DeviceMatrix& w, ProductForm form) {
  const std::optional<Way> way = WayOf(text, form);
  if (!way || way->kind == Way::Kind::kPlain) return way;
  ProductTrial trial(device_, w, form, range.most);
  if (!CanServe(*way, trial.OperandsFor(range.most), trial.OperandsFor(range.least))) {
    return std::nullopt;
  }
  return Admit(*way, range, trial) ? way : std::nullopt;
}

bool Products::CanServe(const Way& way, const ProductOperands& most, const ProductOperands& least) {
  switch (way.kind) {
    case Way::Kind::kPlain:
      return true;
    case Way::Kind::kFewRows:
      return FewRowsCanServe(ProductOf(most).shape);
    case Way::Kind::kLibrary:
      return library_->Supports(way.algorithm, ProductOf(most)) &&
             library_->Supports(way.algorithm, ProductOf(least));
    case Way::Kind::kManyRows:
      return ManyRowsCanServe(most);
  }
  return false;
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
      MultiplyFewRows(device_->stream, operands, way.ring);
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
  return PortableTextOf(Decide(rows, w, form));
}

std::string Products::Table() const {
  std::map<std::string, std::string> table;
  for (const auto& [key, decision] : decisions_) {
    if (decision.guessed) continue;
    table[KeyOf(key.first, {1, key.second})] = PortableTextOf(decision.way);
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
      DeviceMatrix w;  // of that shape: nobody looks at its values
      w.rows = w.padded_rows = product->outputs;
      w.columns = w.stride = product->inner;
      const auto which = static_cast<ProductForm>(form - std::begin(kForms));
      const Range range = RangeOf(product->most_rows);
      const auto way = WayOf(text, which);
      legal = range.most == product->most_rows && way &&
              CanServe(*way, OperandsOf(nullptr, range.most, w, which),
                       OperandsOf(nullptr, range.least, w, which));
    }
    if (!legal) illegal.push_back(key + ": " + text);
  }
  return illegal;
}

}  // namespace banyan::cuda
