#include "kernels/cpu/packed_matrix.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/dequantize.h"
#include "tensor/float16.h"

namespace banyan {
namespace {

// A stretch of consecutive output rows that come from one source tensor.
struct SourceRow {
  const HostTensor* tensor;
  std::int64_t row;

  std::span<const std::byte> bytes() const {
    const size_t size = RowBytes(tensor->dtype, tensor->columns());
    return tensor->bytes.subspan(static_cast<size_t>(row) * size, size);
  }
};

std::vector<SourceRow> OrderedRows(std::span<const HostTensor* const> parts,
                                   std::span<const std::int32_t> row_order) {
  std::vector<SourceRow> stacked;
  for (const HostTensor* part : parts) {
    for (std::int64_t row = 0; row < part->rows(); ++row) stacked.push_back({part, row});
  }
  if (row_order.empty()) return stacked;
  BANYAN_CHECK(row_order.size() == stacked.size());
  std::vector<SourceRow> ordered;
  ordered.reserve(stacked.size());
  for (std::int32_t source : row_order) ordered.push_back(stacked.at(static_cast<size_t>(source)));
  return ordered;
}

PanelType PanelTypeFor(DType dtype, bool keep_compact) {
  if (!keep_compact) return PanelType::kF32;
  if (dtype == DType::kF16) return PanelType::kF16;
  if (dtype == DType::kBF16) return PanelType::kBF16;
  return QuantizedFormOf(dtype).group > 0 ? PanelType::kCodes : PanelType::kF32;
}

void PackFloatRow(const SourceRow& source, std::int64_t columns, float* panel, int lane) {
  std::vector<float> values(static_cast<size_t>(columns));
  Dequantize(source.tensor->dtype, source.bytes(), values);
  for (std::int64_t c = 0; c < columns; ++c) {
    panel[c * kPanelWidth + lane] = values[static_cast<size_t>(c)];
  }
}

void PackHalfRow(const SourceRow& source, std::int64_t columns, std::uint16_t* panel, int lane) {
  const auto* values = reinterpret_cast<const unsigned char*>(source.bytes().data());
  for (std::int64_t c = 0; c < columns; ++c) {
    panel[c * kPanelWidth + lane] =
        static_cast<std::uint16_t>(values[2 * c] | (values[2 * c + 1] << 8));
  }
}

void PackCodeRow(const SourceRow& source, std::int64_t columns, PackedPart& part,
                 std::int64_t panel, int lane) {
  const std::int64_t groups = columns / part.group;
  std::vector<std::int8_t> codes(static_cast<size_t>(columns));
  std::vector<float> scales(static_cast<size_t>(groups)), minima(static_cast<size_t>(groups));
  DequantizeToCodes(source.tensor->dtype, source.bytes(), codes, scales, minima);
  std::int8_t* code_panel = part.codes.data() + panel * columns * kPanelWidth;
  for (std::int64_t c = 0; c < columns; ++c) {
    code_panel[c * kPanelWidth + lane] = codes[static_cast<size_t>(c)];
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t at = (panel * groups + g) * kPanelWidth + lane;
    part.scales[static_cast<size_t>(at)] = scales[static_cast<size_t>(g)];
    if (!part.minima.empty()) part.minima[static_cast<size_t>(at)] = minima[static_cast<size_t>(g)];
  }
}

PackedPart PackPart(std::span<const SourceRow> rows, std::int64_t columns, PanelType type,
                    ThreadPool& pool) {
  PackedPart part;
  part.type = type;
  part.rows = static_cast<std::int64_t>(rows.size());
  const size_t elements = static_cast<size_t>(part.panels() * columns * kPanelWidth);
  if (type == PanelType::kF32) {
    part.f32.resize(elements);
  } else if (type == PanelType::kCodes) {
    const QuantizedForm form = QuantizedFormOf(rows.front().tensor->dtype);
    part.group = form.group;
    part.codes.resize(elements);
    part.scales.resize(elements / static_cast<size_t>(form.group));
    if (form.has_min) part.minima.resize(part.scales.size());
  } else {
    part.half.resize(elements);
  }
  pool.ForEach(part.panels(), [&](std::int64_t panel, int) {
    for (int lane = 0; lane < kPanelWidth; ++lane) {
      const std::int64_t row = panel * kPanelWidth + lane;
      if (row >= part.rows) break;
      const SourceRow& source = rows[static_cast<size_t>(row)];
      const std::int64_t offset = panel * columns * kPanelWidth;
      if (type == PanelType::kF32) {
        PackFloatRow(source, columns, part.f32.data() + offset, lane);
      } else if (type == PanelType::kCodes) {
        PackCodeRow(source, columns, part, panel, lane);
      } else {
        PackHalfRow(source, columns, part.half.data() + offset, lane);
      }
    }
  });
  return part;
}

std::int64_t ResidentBytes(const PackedPart& part) {
  return static_cast<std::int64_t>(4 * (part.f32.size() + part.scales.size() + part.minima.size()) +
                                   2 * part.half.size() + part.codes.size());
}

// Panels [begin, end) of a part for all rows.
void MultiplyPanels(const PackedPart& part, std::int64_t columns, std::int64_t begin,
                    std::int64_t end, const ProductRows& rows, const VectorKernels& vector) {
  PanelProduct product;
  product.x = rows.x;
  product.x_stride = rows.x_stride;
  product.rows = rows.rows;
  product.inner = static_cast<int>(columns);
  product.panel_stride = columns * kPanelWidth;
  product.panel_count = static_cast<int>(end - begin);
  product.out = rows.out + part.first_row + begin * kPanelWidth;
  product.out_stride = rows.out_stride;
  const std::int64_t offset = begin * product.panel_stride;
  if (part.type == PanelType::kF32) {
    product.panels = part.f32.data() + offset;
    return vector.product_f32(product);
  }
  if (part.type == PanelType::kCodes) {
    CodeProduct codes;
    product.panels = part.codes.data() + offset;
    codes.base = product;
    codes.group = part.group;
    const std::int64_t scale_offset = offset / part.group;
    codes.scales = part.scales.data() + scale_offset;
    codes.minima = part.minima.empty() ? nullptr : part.minima.data() + scale_offset;
    // Grows to the widest matrix once per thread.
    thread_local std::vector<float> scratch;
    const size_t needed = static_cast<size_t>(columns * kPanelWidth * kScratchPanels);
    if (scratch.size() < needed) scratch.resize(needed);
    codes.scratch = scratch.data();
    return vector.product_codes(codes);
  }
  product.panels = part.half.data() + offset;
  return part.type == PanelType::kF16 ? vector.product_f16(product) : vector.product_bf16(product);
}

}  // namespace

std::shared_ptr<PackedMatrix> PackMatrix(std::span<const HostTensor* const> parts,
                                         std::span<const std::int32_t> row_order, bool keep_compact,
                                         ThreadPool& pool) {
  BANYAN_CHECK(!parts.empty());
  auto matrix = std::make_shared<PackedMatrix>();
  matrix->columns = parts.front()->columns();
  for (const HostTensor* part : parts) BANYAN_CHECK(part->columns() == matrix->columns);
  const std::vector<SourceRow> rows = OrderedRows(parts, row_order);
  matrix->rows = static_cast<std::int64_t>(rows.size());
  // A part ends where the type changes. A part that does not fill its last panel would write past
  // its rows into the next part's outputs; then all rows become one float32 part.
  for (size_t i = 1; i < rows.size(); ++i) {
    const bool changes = rows[i].tensor->dtype != rows[i - 1].tensor->dtype;
    if (changes && i % kPanelWidth != 0) keep_compact = false;
  }
  size_t begin = 0;
  while (begin < rows.size()) {
    size_t end = begin + 1;
    while (end < rows.size() &&
           (!keep_compact || rows[end].tensor->dtype == rows[begin].tensor->dtype)) {
      ++end;
    }
    const std::span<const SourceRow> stretch(rows.data() + begin, end - begin);
    PackedPart part = PackPart(stretch, matrix->columns,
                               PanelTypeFor(rows[begin].tensor->dtype, keep_compact), pool);
    part.first_row = static_cast<std::int64_t>(begin);
    matrix->bytes += ResidentBytes(part);
    matrix->parts.push_back(std::move(part));
    begin = end;
  }
  return matrix;
}

void MultiplyPacked(const PackedMatrix& w, const ProductRows& rows, const VectorKernels& vector,
                    ThreadPool& pool) {
  for (const PackedPart& part : w.parts) {
    // Chunks of whole passes (8 panels), several per thread so that a late thread finds less to do.
    const std::int64_t panels = part.panels();
    const std::int64_t share = (panels + 4 * pool.size() - 1) / (4 * pool.size());
    const std::int64_t chunk = (share + 7) / 8 * 8;
    pool.ForEach((panels + chunk - 1) / chunk, [&](std::int64_t index, int) {
      const std::int64_t begin = index * chunk;
      MultiplyPanels(part, w.columns, begin, std::min(begin + chunk, panels), rows, vector);
    });
  }
}

void UnpackRow(const PackedMatrix& w, std::int64_t row, float* out) {
  const auto after = std::upper_bound(
      w.parts.begin(), w.parts.end(), row,
      [](std::int64_t value, const PackedPart& part) { return value < part.first_row; });
  const PackedPart& part = *(after - 1);
  const std::int64_t panel = (row - part.first_row) / kPanelWidth;
  const std::int64_t lane = (row - part.first_row) % kPanelWidth;
  const std::int64_t offset = panel * w.columns * kPanelWidth + lane;
  for (std::int64_t c = 0; c < w.columns; ++c) {
    const size_t at = static_cast<size_t>(offset + c * kPanelWidth);
    switch (part.type) {
      case PanelType::kF32:
        out[c] = part.f32[at];
        break;
      case PanelType::kF16:
        out[c] = F16ToFloat(part.half[at]);
        break;
      case PanelType::kBF16:
        out[c] = BF16ToFloat(part.half[at]);
        break;
      case PanelType::kCodes: {
        const std::int64_t groups = w.columns / part.group;
        const size_t g =
            static_cast<size_t>((panel * groups + c / part.group) * kPanelWidth + lane);
        const float value = part.scales[g] * static_cast<float>(part.codes[at]);
        out[c] = part.minima.empty() ? value : value - part.minima[g];
        break;
      }
    }
  }
}

}  // namespace banyan
