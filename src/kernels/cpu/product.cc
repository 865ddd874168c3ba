#include "kernels/cpu/product.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

// Rows and panels of the whole matrix.
struct Tile {
  int row_begin, row_end;
  std::int64_t panel_begin, panel_end;
};

// Multiply-adds of codes that take the time of one in float32.
constexpr int kCodesForFloat = 3;
// Values of a row that a thread makes codes of at least: a few microseconds.
constexpr std::int64_t kCodedTogether = 8192;

ProductShape ShapeOf(const PackedMatrix& w, const ProductRows& rows, const CpuPath& path) {
  ProductShape shape;
  shape.rows = rows.rows;
  shape.panels = (w.rows + kPanelWidth - 1) / kPanelWidth;
  shape.columns = w.columns;
  if (w.parts.front().type == PanelType::kCodes) {
    shape.columns = (w.columns + kCodesForFloat - 1) / kCodesForFloat;
    shape.rows_together = path.integer.rows_together;
    shape.panels_for_row = path.integer.panels_for_row;
  } else {
    shape.rows_together = path.vector.rows_together;
    shape.panels_together = path.vector.panels_together;
    shape.panels_for_row = path.vector.panels_for_row;
  }
  return shape;
}

// What the tiles of a product share.
struct Operands {
  const PackedMatrix& w;
  const ProductRows& rows;
  CodedRows coded;  // the rows again, where w has codes
  const CpuPath& path;
};

CodedRows CodeRows(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (!w.has_codes()) return {};
  CodedMemory& memory = threads.coded;
  const auto values = static_cast<size_t>(rows.rows * w.columns);
  if (memory.codes.size() < values) {
    memory.codes.resize(values);
    memory.scales.resize(values / kBlockColumns);
    memory.sums.resize(values / kHalfColumns);
  }
  const std::int64_t together = 1 + kCodedTogether / w.columns;
  threads.pool.ForEach(rows.rows, together, [&](std::int64_t row, int) {
    const std::int64_t at = row * w.columns;
    threads.path.vector.code_row(
        rows.x + row * rows.x_stride, static_cast<int>(w.columns), memory.codes.data() + at,
        memory.scales.data() + at / kBlockColumns, memory.sums.data() + at / kHalfColumns);
  });
  return memory.rows();
}

// Panels [begin, end) of a part of codes.
void MultiplyCodes(const PackedPart& part, std::int64_t begin, std::int64_t end, const Tile& tile,
                   const Operands& operands) {
  const std::int64_t columns = operands.w.columns;
  const std::int64_t values = tile.row_begin * columns;
  IntegerProduct product;
  product.x = {operands.coded.codes + values, operands.coded.scales + values / kBlockColumns,
               operands.coded.sums + values / kHalfColumns};
  product.rows = tile.row_end - tile.row_begin;
  product.columns = static_cast<int>(columns);
  product.panel_stride = part.layout.PanelBytes(columns);
  product.panels = part.codes.data() + begin * product.panel_stride;
  product.panel_count = static_cast<int>(end - begin);
  product.nibbles = part.layout.nibbles;
  if (product.nibbles) {
    // Grows to the widest matrix once per thread.
    thread_local std::vector<std::uint8_t> scratch;
    const auto needed = static_cast<size_t>(columns * kPanelWidth);
    if (scratch.size() < needed) scratch.resize(needed);
    product.scratch = scratch.data();
  }
  product.offset = part.layout.offset;
  product.group = part.group;
  const std::int64_t scale = begin * kPanelWidth * (columns / part.group);
  product.scales = part.scales.data() + scale;
  product.minima = part.minima.empty() ? nullptr : part.minima.data() + scale;
  product.out = operands.rows.out + tile.row_begin * operands.rows.out_stride + part.first_row +
                begin * kPanelWidth;
  product.out_stride = operands.rows.out_stride;
  operands.path.integer.product(product);
}

// Panels [begin, end) of a part.
void MultiplyPanels(const PackedPart& part, std::int64_t begin, std::int64_t end, const Tile& tile,
                    const Operands& operands) {
  if (part.type == PanelType::kCodes) return MultiplyCodes(part, begin, end, tile, operands);
  const ProductRows& rows = operands.rows;
  PanelProduct product;
  product.x = rows.x + tile.row_begin * rows.x_stride;
  product.x_stride = rows.x_stride;
  product.rows = tile.row_end - tile.row_begin;
  product.inner = static_cast<int>(operands.w.columns);
  product.panel_stride = operands.w.columns * kPanelWidth;
  product.panel_count = static_cast<int>(end - begin);
  product.out = rows.out + tile.row_begin * rows.out_stride + part.first_row + begin * kPanelWidth;
  product.out_stride = rows.out_stride;
  const std::int64_t offset = begin * product.panel_stride;
  const VectorKernels& vector = operands.path.vector;
  if (part.type == PanelType::kF32) {
    product.panels = part.f32.data() + offset;
    return vector.product_f32(product);
  }
  product.panels = part.half.data() + offset;
  return part.type == PanelType::kF16 ? vector.product_f16(product) : vector.product_bf16(product);
}

// The tile's outputs, with the bias. All parts but the last fill their panels.
void MultiplyTile(const Tile& tile, const Operands& operands) {
  const ProductRows& rows = operands.rows;
  for (const PackedPart& part : operands.w.parts) {
    const std::int64_t first = part.first_row / kPanelWidth;
    const std::int64_t begin = std::max(tile.panel_begin - first, std::int64_t{0});
    const std::int64_t end = std::min(tile.panel_end - first, part.panels());
    if (begin < end) MultiplyPanels(part, begin, end, tile, operands);
  }
  if (rows.bias == nullptr) return;
  const std::int64_t column = tile.panel_begin * kPanelWidth;
  const std::int64_t count = std::min(tile.panel_end * kPanelWidth, operands.w.rows) - column;
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    operands.path.vector.add(rows.bias + column, count, rows.out + row * rows.out_stride + column);
  }
}

// visit(tile) for all tiles of `shape`. Tiles of the same panels are neighbours, so that threads
// read them at about the same time.
template <typename Visit>
void ForEachTile(const ProductShape& shape, ProductThreads& threads, const Visit& visit) {
  const ProductTiles& tiles = threads.divisions.Of(shape);
  threads.pool.ForEach(tiles.count(), [&](std::int64_t index, int) {
    const int row = static_cast<int>(index % tiles.row_tiles) * tiles.rows;
    const std::int64_t panel = index / tiles.row_tiles * tiles.panels;
    visit(Tile{row, std::min(row + tiles.rows, shape.rows), panel,
               std::min(panel + tiles.panels, shape.panels)});
  });
}

}  // namespace

void Multiply(const PackedMatrix& w, const ProductRows& rows, const SumRows& more,
              ProductThreads& threads) {
  if (rows.rows == 0) return;
  const Operands operands{w, rows, CodeRows(w, rows, threads), threads.path};
  ForEachTile(ShapeOf(w, rows, threads.path), threads, [&](const Tile& tile) {
    MultiplyTile(tile, operands);
    if (more.values == nullptr) return;
    const std::int64_t column = tile.panel_begin * kPanelWidth;
    const std::int64_t count = std::min(tile.panel_end * kPanelWidth, w.rows) - column;
    for (int row = tile.row_begin; row < tile.row_end; ++row) {
      threads.path.vector.add(rows.out + row * rows.out_stride + column, count,
                              more.values + row * more.stride + column);
    }
  });
}

void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, const GatedRows& gated,
                   ProductThreads& threads) {
  BANYAN_CHECK(w.rows % (2 * kPanelWidth) == 0);
  if (rows.rows == 0) return;
  // A tile is panels of gates and the same of ups.
  const Operands operands{w, rows, CodeRows(w, rows, threads), threads.path};
  ProductShape shape = ShapeOf(w, rows, threads.path);
  const std::int64_t ups = shape.panels / 2;
  shape.panels = ups;
  shape.columns *= 2;
  ForEachTile(shape, threads, [&](const Tile& gates) {
    MultiplyTile(gates, operands);
    MultiplyTile({gates.row_begin, gates.row_end, gates.panel_begin + ups, gates.panel_end + ups},
                 operands);
    const std::int64_t column = gates.panel_begin * kPanelWidth;
    const std::int64_t count = (gates.panel_end - gates.panel_begin) * kPanelWidth;
    for (int row = gates.row_begin; row < gates.row_end; ++row) {
      const float* gate = rows.out + row * rows.out_stride + column;
      threads.path.vector.swiglu(gate, gate + ups * kPanelWidth, count,
                                 gated.values + row * gated.stride + column);
    }
  });
}

}  // namespace banyan
