#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// An output row as its source tensor stores it.
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
  std::vector<SourceRow> ordered;
  ordered.reserve(stacked.size());
  for (std::int32_t source : row_order) ordered.push_back(stacked.at(static_cast<size_t>(source)));
  return ordered;
}

PanelType PanelTypeFor(DType dtype, bool keep_compact) {
  if (!keep_compact) return PanelType::kF32;
  if (dtype == DType::kF16) return PanelType::kF16;
  if (dtype == DType::kBF16) return PanelType::kBF16;
  return QuantizedFormOf(dtype).group > 0 ? PanelType::kQuantized : PanelType::kF32;
}

void PackFloatRow(const SourceRow& source, std::int64_t columns, float* panel, int lane) {
  std::vector<float> values(static_cast<size_t>(columns));
  Dequantize(source.tensor->dtype, source.bytes(), values);
  for (std::int64_t c = 0; c < columns; ++c) {
    panel[c * kPanelWidth + lane] = values[static_cast<size_t>(c)];
  }
}

void PackHalfRow(const SourceRow& source, std::int64_t columns, std::uint16_t* panel, int lane,
                 std::int64_t begin = 0) {
  const auto* values = reinterpret_cast<const unsigned char*>(source.bytes().data());
  for (std::int64_t c = begin; c < columns; ++c) {
    panel[c * kPanelWidth + lane] =
        static_cast<std::uint16_t>(values[2 * c] | (values[2 * c + 1] << 8));
  }
}

// Eight rows at once, in squares of eight columns: rows in, columns out.
constexpr int kSquare = 8;
using HalfSquare = std::uint16_t __attribute__((vector_size(2 * kSquare)));

void Transpose(HalfSquare (&square)[kSquare]) {
  for (int round = 0; round < 3; ++round) {
    HalfSquare next[kSquare];
    for (int i = 0; i < kSquare / 2; ++i) {
      const HalfSquare a = square[i], b = square[i + kSquare / 2];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::copy(next, next + kSquare, square);
  }
}

// `rows`: kSquare of them, which become lanes from `lane` on.
void PackHalfRows(const SourceRow* rows, std::int64_t columns, std::uint16_t* panel, int lane) {
  const std::byte* bytes[kSquare];
  for (int i = 0; i < kSquare; ++i) bytes[i] = rows[i].bytes().data();
  std::int64_t c = 0;
  for (; c + kSquare <= columns; c += kSquare) {
    HalfSquare square[kSquare];
    for (int i = 0; i < kSquare; ++i) std::memcpy(&square[i], bytes[i] + 2 * c, sizeof(square[i]));
    Transpose(square);
    for (int i = 0; i < kSquare; ++i) {
      std::memcpy(panel + (c + i) * kPanelWidth + lane, &square[i], sizeof(square[i]));
    }
  }
  for (int i = 0; i < kSquare; ++i) PackHalfRow(rows[i], columns, panel, lane + i, c);
}

void PackQuantizedRow(const SourceRow& source, std::int64_t columns, PackedPart& part,
                      std::int64_t panel, int lane) {
  const std::int64_t groups = columns / part.group;
  std::vector<std::int8_t> codes(static_cast<size_t>(columns));
  std::vector<float> scales(static_cast<size_t>(groups)), minima(static_cast<size_t>(groups));
  DequantizeToCodes(source.tensor->dtype, source.bytes(), codes, scales, minima);
  std::uint8_t* code_panel = part.codes.data() + panel * part.layout.PanelBytes(columns);
  for (std::int64_t block = 0; block < columns / kBlockColumns; ++block) {
    part.layout.PutBlock(code_panel, block, lane, codes.data() + block * kBlockColumns);
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t at = (panel * groups + g) * kPanelWidth + lane;
    part.scales[static_cast<size_t>(at)] = scales[static_cast<size_t>(g)];
    if (!part.minima.empty()) part.minima[static_cast<size_t>(at)] = minima[static_cast<size_t>(g)];
  }
}

// The codebook of types that have one; null for others.
const Codebook* BookOf(DType type) {
  static const Codebook of_iq4(CodeBookOf(DType::kIQ4_NL)), of_fp4(CodeBookOf(DType::kMXFP4));
  if (CodeBookOf(type).empty()) return nullptr;
  return type == DType::kMXFP4 ? &of_fp4 : &of_iq4;
}

// Types whose values fit four bits: 0 … 15, without minima -8 … 7, or indices of a codebook.
bool FitsNibbles(DType type) {
  if (BookOf(type) != nullptr) return true;
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K:
    case DType::kQ3_K:
    case DType::kQ2_K:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return true;
    default:
      return false;
  }
}

// Of panels that rows do not fill.
void ClearPanel(PackedPart& part, std::int64_t panel) {
  const auto clear = [&](auto& values) {
    const size_t size = values.size() / static_cast<size_t>(part.panels());
    std::fill_n(values.begin() + panel * static_cast<std::int64_t>(size), size, 0);
  };
  clear(part.f32);
  clear(part.half);
  clear(part.codes);
  clear(part.scales);
  clear(part.minima);
}

PackedPart PackPart(std::span<const SourceRow> rows, std::int64_t columns,
                    const PackOptions& options, ThreadPool& pool) {
  const PanelType type = PanelTypeFor(rows.front().tensor->dtype, options.keep_compact);
  PackedPart part;
  part.type = type;
  part.rows = static_cast<std::int64_t>(rows.size());
  const size_t elements = static_cast<size_t>(part.panels() * columns * kPanelWidth);
  if (type == PanelType::kF32) {
    part.f32.resize(elements);
  } else if (type == PanelType::kQuantized) {
    const QuantizedForm form = QuantizedFormOf(rows.front().tensor->dtype);
    part.group = form.group;
    part.layout.interleave = options.interleave;
    part.layout.nibbles = FitsNibbles(rows.front().tensor->dtype);
    part.layout.book = BookOf(rows.front().tensor->dtype);
    part.layout.offset = !part.layout.nibbles ? options.bias : form.has_min ? 0 : kNibbleOffset;
    part.codes.resize(static_cast<size_t>(part.panels() * part.layout.PanelBytes(columns)));
    part.scales.resize(elements / static_cast<size_t>(form.group));
    if (form.has_min) part.minima.resize(part.scales.size());
  } else {
    part.half.resize(elements);
  }
  pool.ForEach(part.panels(), [&](std::int64_t panel, int) {
    if ((panel + 1) * kPanelWidth > part.rows) ClearPanel(part, panel);
    for (int lane = 0; lane < kPanelWidth; ++lane) {
      const std::int64_t row = panel * kPanelWidth + lane;
      if (row >= part.rows) break;
      const SourceRow& source = rows[static_cast<size_t>(row)];
      const std::int64_t offset = panel * columns * kPanelWidth;
      const bool half = type == PanelType::kF16 || type == PanelType::kBF16;
      static_assert(std::endian::native == std::endian::little, "as files have them");
      if (half && lane % kSquare == 0 && row + kSquare <= part.rows) {
        PackHalfRows(&source, columns, part.half.data() + offset, lane);
        lane += kSquare - 1;
      } else if (type == PanelType::kF32) {
        PackFloatRow(source, columns, part.f32.data() + offset, lane);
      } else if (type == PanelType::kQuantized) {
        PackQuantizedRow(source, columns, part, panel, lane);
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

}  // namespace

std::shared_ptr<PackedMatrix> PackMatrix(std::span<const HostTensor* const> parts,
                                         std::span<const std::int32_t> row_order,
                                         PackOptions options, ThreadPool& pool) {
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
    if (changes && i % kPanelWidth != 0) options.keep_compact = false;
  }
  size_t begin = 0;
  while (begin < rows.size()) {
    size_t end = begin + 1;
    while (end < rows.size() &&
           (!options.keep_compact || rows[end].tensor->dtype == rows[begin].tensor->dtype)) {
      ++end;
    }
    const std::span<const SourceRow> same_type(rows.data() + begin, end - begin);
    PackedPart part = PackPart(same_type, matrix->columns, options, pool);
    part.first_row = static_cast<std::int64_t>(begin);
    matrix->bytes += ResidentBytes(part);
    matrix->parts.push_back(std::move(part));
    begin = end;
  }
  return matrix;
}

bool PackedMatrix::quantized() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const PackedPart& part) { return part.type == PanelType::kQuantized; });
}

namespace {

// Row `lane` of a quantized panel.
void UnpackQuantized(const PackedPart& part, std::int64_t columns, std::int64_t panel, int lane,
                     float* out) {
  const std::uint8_t* codes = part.codes.data() + panel * part.layout.PanelBytes(columns);
  const std::int64_t groups = columns / part.group;
  std::int8_t block[kBlockColumns];
  for (std::int64_t c = 0; c < columns; ++c) {
    if (c % kBlockColumns == 0) part.layout.GetBlock(codes, c / kBlockColumns, lane, block);
    const auto g = static_cast<size_t>((panel * groups + c / part.group) * kPanelWidth + lane);
    const float value = part.scales[g] * static_cast<float>(block[c % kBlockColumns]);
    out[c] = part.minima.empty() ? value : value - part.minima[g];
  }
}

}  // namespace

void UnpackRow(const PackedMatrix& w, std::int64_t row, float* out) {
  const auto after = std::upper_bound(
      w.parts.begin(), w.parts.end(), row,
      [](std::int64_t value, const PackedPart& part) { return value < part.first_row; });
  const PackedPart& part = *(after - 1);
  const std::int64_t panel = (row - part.first_row) / kPanelWidth;
  const int lane = static_cast<int>((row - part.first_row) % kPanelWidth);
  if (part.type == PanelType::kQuantized) return UnpackQuantized(part, w.columns, panel, lane, out);
  const std::int64_t offset = panel * w.columns * kPanelWidth + lane;
  for (std::int64_t c = 0; c < w.columns; ++c) {
    const size_t at = static_cast<size_t>(offset + c * kPanelWidth);
    out[c] = part.type == PanelType::kF32   ? part.f32[at]
             : part.type == PanelType::kF16 ? F16ToFloat(part.half[at])
                                            : BF16ToFloat(part.half[at]);
  }
}

}  // namespace banyan
