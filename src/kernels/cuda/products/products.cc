#include "kernels/cuda/products/products.h"

#include <chrono>

#include "base/error.h"
#include "kernels/cuda/products/many_rows.h"
#include "kernels/cuda/products/product_operands.h"
#include "kernels/cuda/source_hash.h"

namespace banyan::cuda {
namespace {

// Below this many weights a launch costs more than the product: the plain kernel serves.
constexpr std::int64_t kSmallMatrix = std::int64_t{1} << 18;
// The last row counts of the ranges that get a decision each; the last range has no end. Finer
// where the time changes from bytes to operations and a wave of tiles more or less is felt.
constexpr std::int64_t kRangeTops[] = {4,   8,   16,  32,  64,   96,   128,  192,
                                       256, 384, 512, 768, 1024, 1536, 2048, 4096};

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
}

std::string Products::KeyOf(const Shape& shape, Range range) const {
  static constexpr const char* kForms[] = {"float32", "add", "bias", "bf16", "swiglu"};
  const auto [outputs, inner, form] = shape;
  return fmt::format("{} x {} {}, {} rows{}", outputs, inner, kForms[static_cast<int>(form)],
                     range.most, options_.fast ? ", fast" : "");
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

std::optional<Products::Way> Products::WayOf(const std::string& text) {
  if (text == TextOf({})) return Way{};
  if (text == "many rows") return Way{Way::Kind::kManyRows, {}, {}};
  for (const RingSize ring : kRingSizes) {
    const Way way{Way::Kind::kFewRows, ring, {}};
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

std::optional<Products::Way> Products::Recall(Range range, const DeviceMatrix& w,
                                              ProductForm form) {
  const auto text = file_.Find(KeyOf(Shape(w.padded_rows, w.stride, form), range));
  if (!text) return std::nullopt;
  const std::optional<Way> way = WayOf(*text);
  if (!way || way->kind == Way::Kind::kPlain) return way;
  ProductTrial trial(device_, w, form, range.most);
  const ProductOperands most = ProductOf(trial.OperandsFor(range.most));
  const ProductOperands least = ProductOf(trial.OperandsFor(range.least));
  if (way->kind == Way::Kind::kFewRows && !FewRowsCanServe(most.shape)) {
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
  const Way& way = Decide(rows, w, form);
  if (way.kind == Way::Kind::kLibrary) return ProductLibrary::Describe(way.algorithm);
  return TextOf(way);
}

}  // namespace banyan::cuda
