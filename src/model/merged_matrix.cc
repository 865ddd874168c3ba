#include "model/merged_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/dequantize.h"
#include "tensor/float16.h"

namespace banyan {
namespace {

std::vector<float> Values(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

std::vector<float> Transposed(const std::vector<float>& values, size_t rows, size_t columns) {
  std::vector<float> turned(values.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) turned[c * rows + r] = values[r * columns + c];
  }
  return turned;
}

// left [rows, rank] times right [rank, columns], for the rows from first_row on.
struct Product {
  explicit Product(const AdaptedRows& adapted)
      : first_row(adapted.first_row),
        rows(adapted.rows),
        rank(adapted.product->rank),
        scale(adapted.product->scale),
        left(Values(*adapted.product->b)),
        right(Values(*adapted.product->a)) {
    if (!adapted.product->embedding) return;
    const auto ranks = static_cast<size_t>(rank);
    std::vector<float> turned = Transposed(right, ranks, right.size() / ranks);
    right = Transposed(left, left.size() / ranks, ranks);
    left = std::move(turned);
  }

  // Adds the product's part of `row` of the whole matrix; `sum` is scratch.
  void AddTo(std::int64_t row, std::span<float> values, std::vector<float>& sum) const {
    if (row < first_row || row >= first_row + rows) return;
    sum.assign(values.size(), 0.0f);
    const float* factors = left.data() + (row - first_row) * rank;
    for (std::int64_t k = 0; k < rank; ++k) {
      const float factor = factors[k];
      const float* line = right.data() + k * static_cast<std::int64_t>(values.size());
      for (size_t c = 0; c < values.size(); ++c) sum[c] += factor * line[c];
    }
    for (size_t c = 0; c < values.size(); ++c) values[c] += scale * sum[c];
  }

  std::int64_t first_row, rows, rank;
  float scale;
  std::vector<float> left, right;
};

DType MergedType(std::span<const HostTensor* const> parts, Precision precision) {
  const auto all = [&](DType type) {
    return std::ranges::all_of(parts, [&](const HostTensor* part) { return part->dtype == type; });
  };
  const bool some_f32 =
      std::ranges::any_of(parts, [](const HostTensor* part) { return part->dtype == DType::kF32; });
  if (precision == Precision::kF32 || some_f32) return DType::kF32;
  return all(DType::kF16) ? DType::kF16 : DType::kBF16;
}

// Whether all values are finite as they are stored.
bool Store(std::span<const float> values, DType type, std::byte* out) {
  bool finite = true;
  for (size_t c = 0; c < values.size(); ++c) {
    if (type == DType::kF32) {
      std::memcpy(out + 4 * c, &values[c], 4);
      finite &= std::isfinite(values[c]);
      continue;
    }
    const bool half = type == DType::kF16;
    const std::uint16_t bits = half ? FloatToF16(values[c]) : FloatToBF16(values[c]);
    std::memcpy(out + 2 * c, &bits, 2);
    finite &= std::isfinite(half ? F16ToFloat(bits) : BF16ToFloat(bits));
  }
  return finite;
}

struct SourceRow {
  const HostTensor* part;
  std::int64_t row;
};

}  // namespace

MergedMatrix Merge(std::span<const HostTensor* const> parts,
                   std::span<const std::int32_t> row_order, std::span<const AdaptedRows> adapted,
                   Precision precision, const std::string& where, ThreadPool& pool) {
  std::vector<SourceRow> sources;
  for (const HostTensor* part : parts) {
    for (std::int64_t row = 0; row < part->rows(); ++row) sources.push_back({part, row});
  }
  BANYAN_CHECK(row_order.empty() || row_order.size() == sources.size());
  const std::vector<Product> products(adapted.begin(), adapted.end());
  const std::int64_t columns = parts.front()->columns();
  const DType type = MergedType(parts, precision);
  const size_t row_bytes = RowBytes(type, columns);

  MergedMatrix merged;
  merged.bytes.resize(sources.size() * row_bytes);
  merged.tensor = {parts.front()->name,
                   type,
                   {static_cast<std::int64_t>(sources.size()), columns},
                   merged.bytes};
  pool.ForEach(static_cast<std::int64_t>(sources.size()), [&](std::int64_t row, int) {
    const auto at = static_cast<size_t>(row);
    const SourceRow source =
        sources.at(row_order.empty() ? at : static_cast<size_t>(row_order[at]));
    std::vector<float> values(static_cast<size_t>(columns)), sum;
    const size_t size = RowBytes(source.part->dtype, columns);
    Dequantize(source.part->dtype,
               source.part->bytes.subspan(static_cast<size_t>(source.row) * size, size), values);
    for (const Product& product : products) product.AddTo(row, values, sum);
    if (!Store(values, type, merged.bytes.data() + at * row_bytes)) {
      Throw(ErrorKind::kFormat, "{}: with it, tensor '{}' has values that are not finite", where,
            source.part->name);
    }
  });
  return merged;
}

}  // namespace banyan
