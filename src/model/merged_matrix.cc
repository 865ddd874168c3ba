#include "model/merged_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
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

  // Adds the product's part of `row` of the whole matrix.
  void AddTo(std::int64_t row, std::span<float> values) const {
    if (row < first_row || row >= first_row + rows) return;
    const float* factors = left.data() + (row - first_row) * rank;
    const size_t columns = values.size();
    for (size_t begin = 0; begin < columns; begin += kBlock) {
      const size_t count = std::min(kBlock, columns - begin);
      float sums[kBlock] = {};
      for (std::int64_t k = 0; k < rank; ++k) {
        const float factor = factors[k];
        const float* line = right.data() + static_cast<size_t>(k) * columns + begin;
        if (count == kBlock) {  // a constant number of values: these go together
          for (size_t c = 0; c < kBlock; ++c) sums[c] += factor * line[c];
        } else {
          for (size_t c = 0; c < count; ++c) sums[c] += factor * line[c];
        }
      }
      for (size_t c = 0; c < count; ++c) values[begin + c] += scale * sums[c];
    }
  }

  static constexpr size_t kBlock = 32;  // values that are summed at a time

  std::int64_t first_row, rows, rank;
  float scale;
  std::vector<float> left, right;
};

DType MergedType(std::span<const HostTensor* const> parts, Precision precision) {
  const bool some_f32 =
      std::ranges::any_of(parts, [](const HostTensor* part) { return part->dtype == DType::kF32; });
  return precision == Precision::kF32 || some_f32 ? DType::kF32 : DType::kF16;
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

// The merged matrix with rows of one type; nothing when a value is not finite in it.
class Merger {
 public:
  Merger(std::span<const HostTensor* const> parts, std::span<const std::int32_t> row_order,
         std::span<const AdaptedRows> adapted)
      : products_(adapted.begin(), adapted.end()), columns_(parts.front()->columns()) {
    std::vector<SourceRow> stacked;
    for (const HostTensor* part : parts) {
      for (std::int64_t row = 0; row < part->rows(); ++row) stacked.push_back({part, row});
    }
    BANYAN_CHECK(row_order.empty() || row_order.size() == stacked.size());
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
    pool.ForEach(rows, [&](std::int64_t row, int) {
      const SourceRow& source = sources_[static_cast<size_t>(row)];
      std::vector<float> values(static_cast<size_t>(columns_));
      const size_t size = RowBytes(source.part->dtype, columns_);
      Dequantize(source.part->dtype,
                 source.part->bytes.subspan(static_cast<size_t>(source.row) * size, size), values);
      for (const Product& product : products_) product.AddTo(row, values);
      if (!Store(values, type, merged.bytes.data() + static_cast<size_t>(row) * row_bytes)) {
        finite = false;
      }
    });
    if (!finite) return std::nullopt;
    return merged;
  }

 private:
  std::vector<Product> products_;
  std::vector<SourceRow> sources_;  // of each row of the result
  std::int64_t columns_;
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

}  // namespace banyan
