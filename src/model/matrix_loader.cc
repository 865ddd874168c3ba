#include "model/matrix_loader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "kernels/cpu/cpu_path.h"
#include "model/weight_scales.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

std::vector<float> Values(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

std::vector<float> Transposed(const std::vector<float>& values, size_t rows, size_t columns) {
  std::vector<float> transposed(values.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) transposed[c * rows + r] = values[r * columns + c];
  }
  return transposed;
}

// The columns of `rows` rows with zeros up to the width that the loops need.
std::vector<float> Padded(const std::vector<float>& values, size_t rows, size_t width) {
  const size_t columns = values.size() / rows;
  if (columns == width) return values;
  std::vector<float> padded(rows * width);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(values.data() + r * columns, columns, padded.data() + r * width);
  }
  return padded;
}

size_t PaddedWidth(std::int64_t columns) {
  return (static_cast<size_t>(columns) + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
}

// left [rows, rank] times right [rank, columns padded], for the rows from first_row on.
struct Product {
  Product(const AdaptedRows& adapted, size_t width)
      : first_row(adapted.first_row),
        rows(adapted.rows),
        rank(adapted.product->rank),
        scale(adapted.product->scale),
        left(Values(*adapted.product->b)),
        right(Values(*adapted.product->a)) {
    const auto ranks = static_cast<size_t>(rank);
    if (adapted.product->embedding) {
      std::vector<float> transposed = Transposed(right, ranks, right.size() / ranks);
      right = Transposed(left, left.size() / ranks, ranks);
      left = std::move(transposed);
    }
    right = Padded(right, ranks, width);
  }

  // Adds the product's part of the rows from `row` on: values [count, width].
  void AddTo(const VectorKernels& loops, std::int64_t row, std::int64_t count, size_t width,
             float* values) const {
    const std::int64_t begin = std::max(row, first_row);
    const std::int64_t end = std::min(row + count, first_row + rows);
    if (begin >= end) return;
    LowRankRows part;
    part.left = left.data() + (begin - first_row) * rank;
    part.rows = static_cast<int>(end - begin);
    part.rank = static_cast<int>(rank);
    part.right = right.data();
    part.columns = static_cast<int>(width);
    part.scale = scale;
    part.values = values + static_cast<size_t>(begin - row) * width;
    loops.add_low_rank(part);
  }

  std::int64_t first_row, rows, rank;
  float scale;
  std::vector<float> left, right;
};

DType MergedType(std::span<const HostTensor* const> parts, Precision precision) {
  const bool some_f32 =
      std::ranges::any_of(parts, [](const HostTensor* part) { return part->dtype == DType::kF32; });
  return precision == Precision::kF32 || some_f32 ? DType::kF32 : DType::kF16;
}

// `count` values as they are stored; `width` of `values`, padding included, may be read and written
// over. Whether all of them are finite.
bool Store(const VectorKernels& loops, std::span<float> values, size_t count, DType type,
           std::byte* out) {
  const auto width = static_cast<std::int64_t>(values.size());
  if (type != DType::kF32) {
    std::vector<std::uint16_t> narrow(values.size());
    const bool half = type == DType::kF16;
    (half ? loops.float_to_f16 : loops.float_to_bf16)(values.data(), width, narrow.data());
    std::memcpy(out, narrow.data(), 2 * count);
    (half ? loops.f16_to_float : loops.bf16_to_float)(narrow.data(), width, values.data());
  } else {
    std::memcpy(out, values.data(), 4 * count);
  }
  return loops.all_finite(values.data(), width);
}

struct SourceRow {
  const HostTensor* part;
  std::int64_t row;
};

// The merged matrix with rows of one type; nothing when a value is not finite in it.
class Merger {
 public:
  Merger(std::span<const HostTensor* const> parts, std::span<const std::int32_t> row_order,
         std::span<const AdaptedRows> adapted)
      : columns_(parts.front()->columns()), width_(PaddedWidth(columns_)) {
    for (const AdaptedRows& rows : adapted) products_.emplace_back(rows, width_);
    std::vector<SourceRow> stacked;
    for (const HostTensor* part : parts) {
      for (std::int64_t row = 0; row < part->rows(); ++row) stacked.push_back({part, row});
    }
    if (row_order.empty()) sources_ = std::move(stacked);
    for (const std::int32_t row : row_order)
      sources_.push_back(stacked.at(static_cast<size_t>(row)));
  }

  std::optional<MergedMatrix> Run(DType type, ThreadPool& pool) const {
    const size_t row_bytes = RowBytes(type, columns_);
    const auto rows = static_cast<std::int64_t>(sources_.size());
    MergedMatrix merged;
    merged.bytes.resize(sources_.size() * row_bytes);
    merged.tensor = {sources_.front().part->name, type, {rows, columns_}, merged.bytes};
    std::atomic<bool> finite = true;
    const VectorKernels& loops = CpuPathOfThisMachine().vector;
    pool.ForEach((rows + kRowsAtOnce - 1) / kRowsAtOnce, [&](std::int64_t group, int) {
      const std::int64_t first = group * kRowsAtOnce, count = std::min(kRowsAtOnce, rows - first);
      std::vector<float> values(static_cast<size_t>(count) * width_);
      const auto row_of = [&](std::int64_t row) {
        return std::span(values).subspan(static_cast<size_t>(row - first) * width_, width_);
      };
      for (std::int64_t row = first; row < first + count; ++row) {
        const SourceRow& source = sources_[static_cast<size_t>(row)];
        const size_t size = RowBytes(source.part->dtype, columns_);
        Dequantize(source.part->dtype,
                   source.part->bytes.subspan(static_cast<size_t>(source.row) * size, size),
                   row_of(row).first(static_cast<size_t>(columns_)));
      }
      for (const Product& product : products_) {
        product.AddTo(loops, first, count, width_, values.data());
      }
      for (std::int64_t row = first; row < first + count; ++row) {
        std::byte* out = merged.bytes.data() + static_cast<size_t>(row) * row_bytes;
        if (!Store(loops, row_of(row), static_cast<size_t>(columns_), type, out)) finite = false;
      }
    });
    if (!finite) return std::nullopt;
    return merged;
  }

 private:
  static constexpr std::int64_t kRowsAtOnce = 8;

  std::int64_t columns_;
  size_t width_;  // columns_ and zeros
  std::vector<Product> products_;
  std::vector<SourceRow> sources_;  // of each row of the result
};

}  // namespace

MergedMatrix Merge(std::span<const HostTensor* const> parts,
                   std::span<const std::int32_t> row_order, std::span<const AdaptedRows> adapted,
                   Precision precision, const std::string& where, ThreadPool& pool) {
  const Merger merger(parts, row_order, adapted);
  const DType type = MergedType(parts, precision);
  std::optional<MergedMatrix> merged = merger.Run(type, pool);
  if (!merged && type == DType::kF16) merged = merger.Run(DType::kBF16, pool);
  if (!merged) {
    Throw(ErrorKind::kFormat, "{}: with it, tensor '{}' has values that are not finite", where,
          parts.front()->name);
  }
  return std::move(*merged);
}

std::vector<float> FiniteValues(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return values;
  Throw(ErrorKind::kFormat, "tensor '{}' has values that are not finite", tensor.name);
}

namespace {

using Place = AdaptedPlace;

const LowRankProduct* FindIn(Adapter& adapter, const Place& place, std::int64_t columns) {
  const std::int64_t rows = place.module_rows > 0 ? place.module_rows : place.rows;
  return adapter.Find(place.module, rows, columns);
}

// The rows of a matrix of plain values, each with the columns wanted; empty: all, as they are.
struct GatheredMatrix {
  GatheredMatrix(const HostTensor& from, std::span<const std::int32_t> rows,
                 std::span<const std::int32_t> columns) {
    const size_t size = RowBytes(from.dtype, 1), row_size = RowBytes(from.dtype, from.columns());
    const size_t count = rows.empty() ? static_cast<size_t>(from.rows()) : rows.size();
    bytes.resize(count * row_size);
    for (size_t r = 0; r < count; ++r) {
      const size_t source = rows.empty() ? r : static_cast<size_t>(rows[r]);
      const std::byte* const read = from.bytes.subspan(source * row_size, row_size).data();
      std::byte* const write = bytes.data() + r * row_size;
      if (columns.empty()) std::memcpy(write, read, row_size);
      for (size_t c = 0; c < columns.size(); ++c) {
        std::memcpy(write + c * size, read + static_cast<size_t>(columns[c]) * size, size);
      }
    }
    tensor = {from.name, from.dtype, {static_cast<std::int64_t>(count), from.columns()}, bytes};
  }
  GatheredMatrix(const GatheredMatrix&) = delete;
  GatheredMatrix& operator=(const GatheredMatrix&) = delete;

  std::vector<std::byte> bytes;
  HostTensor tensor;
};

struct GatheredProduct {
  GatheredProduct(const LowRankProduct& from, const Place& place)
      : a(*from.a, {}, place.columns), b(*from.b, place.taken, {}), product(from) {
    product.a = &a.tensor;
    product.b = &b.tensor;
  }
  GatheredMatrix a, b;
  LowRankProduct product;
};

std::vector<AdaptedRows> ProductsOf(Adapter* adapter, const std::vector<Place>& places,
                                    std::int64_t columns) {
  std::vector<AdaptedRows> products;
  if (adapter == nullptr) return products;
  for (const Place& place : places) {
    const LowRankProduct* product = FindIn(*adapter, place, columns);
    if (product == nullptr) continue;
    AdaptedRows rows{product, place.first_row, place.rows};
    if (!place.taken.empty() || !place.columns.empty()) {
      auto gathered = std::make_shared<const GatheredProduct>(*product, place);
      rows.product = &gathered->product;
      rows.owner = std::move(gathered);
    }
    products.push_back(std::move(rows));
  }
  return products;
}

void CheckFinite(const LowRankProduct& product, const Adapter& adapter) {
  for (const HostTensor* tensor : {product.a, product.b}) {
    std::vector<float> values(static_cast<size_t>(tensor->rows() * tensor->columns()));
    Dequantize(tensor->dtype, tensor->bytes, values);
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    Throw(ErrorKind::kFormat, "{}: tensor '{}' has values that are not finite", adapter.where(),
          tensor->name);
  }
}

}  // namespace

AdaptedPlace TakenRows(std::string module, std::int64_t module_rows, std::int64_t first_row,
                       std::vector<std::int32_t> taken) {
  const auto rows = static_cast<std::int64_t>(taken.size());
  return {std::move(module), first_row, rows, module_rows, std::move(taken), {}};
}

MatrixLoader::MatrixLoader(const TensorStore& store, Kernels& kernels, const LoadProgress& progress,
                           const AdaptersToLoad& adapters, const WeightScales& scales,
                           ModelWeights& totals)
    : store_(store),
      kernels_(kernels),
      progress_(progress),
      total_bytes_(static_cast<std::int64_t>(store.TotalBytes())),
      merged_(adapters.merged),
      apart_(adapters.apart),
      scales_(scales),
      totals_(totals) {}

ThreadPool& MatrixLoader::Pool() {
  if (!pool_) pool_.emplace(kernels_.options().threads);
  return *pool_;
}

MatrixRef MatrixLoader::Matrix(const std::vector<const HostTensor*>& parts,
                               std::span<const std::int32_t> order,
                               const std::vector<Place>& places) {
  return LoadBy([&](auto tensors, auto rows) { return kernels_.LoadMatrix(tensors, rows); }, parts,
                order, places);
}

MatrixRef MatrixLoader::Table(const HostTensor& table, const std::vector<Place>& places) {
  return LoadBy([&](auto tensors, auto) { return kernels_.LoadTable(tensors); }, {&table}, {},
                places);
}

MatrixRef MatrixLoader::DividedMatrix(const std::vector<const HostTensor*>& parts,
                                      std::span<const std::int32_t> order,
                                      const std::vector<Place>& places,
                                      std::span<const std::int64_t> blocks) {
  return LoadBy(
      [&](auto tensors, auto rows) { return kernels_.LoadDivided(tensors, rows, blocks); }, parts,
      order, places);
}

MatrixRef MatrixLoader::LoadBy(const Load& load, const std::vector<const HostTensor*>& parts,
                               std::span<const std::int32_t> order,
                               const std::vector<Place>& places) {
  for (const HostTensor* part : parts) ReadAhead(part->bytes);
  MatrixRef matrix;
  const auto products = ProductsOf(merged_, places, parts.front()->columns());
  std::vector<ScaledTensor> scaled(parts.size());  // of parts that are codes
  std::vector<const HostTensor*> plain = parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!NeedsScales(parts[i]->dtype)) continue;
    scaled[i] = ApplyScales(*parts[i], store_, scales_, kernels_.options().precision, Pool());
    plain[i] = &scaled[i].tensor;
  }
  if (products.empty()) {
    matrix = load(plain, order);
  } else {
    const MergedMatrix merged =
        Merge(plain, order, products, kernels_.options().precision, merged_->where(), Pool());
    const HostTensor* whole = &merged.tensor;
    matrix = load(std::span(&whole, 1), {});
  }
  for (const HostTensor* part : parts) {
    loaded_bytes_ += static_cast<std::int64_t>(part->bytes.size());
    store_.Forget(*part);  // or the file and the weights made of it would be in memory at once
  }
  if (progress_) progress_(loaded_bytes_, total_bytes_);
  totals_.bytes += matrix->bytes;
  totals_.parameters += matrix->rows * matrix->columns;
  return matrix;
}

MatrixRef MatrixLoader::ProductMatrix(const std::vector<const HostTensor*>& parts,
                                      std::span<const std::int32_t> order,
                                      const std::vector<Place>& places,
                                      std::span<const std::int64_t> blocks) {
  MatrixRef matrix = DividedMatrix(parts, order, places, blocks);
  totals_.bytes -= matrix->bytes;
  matrix = kernels_.ForProducts(std::move(matrix));
  totals_.bytes += matrix->bytes;
  return matrix;
}

VectorRef MatrixLoader::Vector(const std::vector<const HostTensor*>& parts,
                               const std::vector<std::int32_t>& order) {
  std::vector<float> values;
  for (const HostTensor* part : parts) {
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(part->columns()));
    Dequantize(part->dtype, part->bytes, std::span(values).subspan(begin));
  }
  if (order.empty()) return kernels_.LoadVector(values);
  std::vector<float> ordered;
  for (std::int32_t source : order) ordered.push_back(values[static_cast<size_t>(source)]);
  return kernels_.LoadVector(ordered);
}

LowRankRef MatrixLoader::Apart(const std::vector<Place>& places, std::int64_t columns) {
  std::vector<std::vector<LowRankPart>> variants;
  std::vector<AdaptedRows> all;  // which the variants view
  for (Adapter* adapter : apart_) {
    std::vector<LowRankPart>& parts = variants.emplace_back();
    for (AdaptedRows& rows : ProductsOf(adapter, places, columns)) {
      CheckFinite(*rows.product, *adapter);
      parts.push_back({rows.product->a, rows.product->b, rows.product->scale, rows.first_row});
      all.push_back(std::move(rows));
    }
  }
  if (all.empty()) return nullptr;
  std::int64_t rows = 0;
  for (const Place& place : places) rows = std::max(rows, place.first_row + place.rows);
  LowRankRef table = kernels_.LoadLowRank({rows, columns, variants});
  totals_.ranks = std::max(totals_.ranks, table->ranks);
  totals_.bytes += table->bytes;
  return table;
}

bool MatrixLoader::IsMergedInto(const std::vector<Place>& places, std::int64_t columns) const {
  return !ProductsOf(merged_, places, columns).empty();
}

void MatrixLoader::RefuseApart(const std::vector<Place>& places, std::int64_t columns) {
  for (Adapter* adapter : apart_) {
    for (const Place& place : places) {
      if (FindIn(*adapter, place, columns) == nullptr) continue;
      Throw(ErrorKind::kUnsupported,
            "{}: it adapts '{}', which works only where an adapter is merged into the weights",
            adapter->where(), place.module);
    }
  }
}

void MatrixLoader::Finish() {
  if (merged_ != nullptr) merged_->CheckAllFound();
  for (Adapter* adapter : apart_) adapter->CheckAllFound();
  if (progress_) progress_(total_bytes_, total_bytes_);  // what the model does not use is done too
}

}  // namespace banyan
