#include "model/matrix_loader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "model/merged_matrix.h"
#include "model/scaled_tensors.h"
#include "tensor/dequantize.h"

namespace banyan {
namespace {

using Place = AdaptedPlace;

std::vector<AdaptedRows> ProductsOf(Adapter* adapter, const std::vector<Place>& places,
                                    std::int64_t columns) {
  std::vector<AdaptedRows> products;
  if (adapter == nullptr) return products;
  for (const Place& place : places) {
    const LowRankProduct* product = adapter->Find(place.module, place.rows, columns);
    if (product != nullptr) products.push_back({product, place.first_row, place.rows});
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
    matrix = kernels_.LoadMatrix(plain, order);
  } else {
    const MergedMatrix merged =
        Merge(plain, order, products, kernels_.options().precision, merged_->where(), Pool());
    const HostTensor* whole = &merged.tensor;
    matrix = kernels_.LoadMatrix(std::span(&whole, 1), {});
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
                                      const std::vector<Place>& places) {
  MatrixRef matrix = Matrix(parts, order, places);
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
  bool some = false;
  for (Adapter* adapter : apart_) {
    std::vector<LowRankPart>& parts = variants.emplace_back();
    for (const AdaptedRows& rows : ProductsOf(adapter, places, columns)) {
      CheckFinite(*rows.product, *adapter);
      parts.push_back({rows.product->a, rows.product->b, rows.product->scale, rows.first_row});
      some = true;
    }
  }
  if (!some) return nullptr;
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
      if (adapter->Find(place.module, place.rows, columns) == nullptr) continue;
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
