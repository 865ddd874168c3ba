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

// What reading a panel costs, in rows: float32 is made of codes first, unless rows are very few.
constexpr int kTermsOfCodes = 8, kTermsOfOthers = 1;

ProductShape ShapeOf(const PackedMatrix& w, const ProductRows& rows, const VectorKernels& vector) {
  ProductShape shape;
  shape.rows = rows.rows;
  shape.panels = (w.rows + kPanelWidth - 1) / kPanelWidth;
  shape.columns = w.columns;
  const bool unpacked = w.parts.front().type == PanelType::kCodes && rows.rows > 2;
  shape.panel_terms = unpacked ? kTermsOfCodes : kTermsOfOthers;
  shape.rows_together = vector.rows_together;
  shape.panels_together = vector.panels_together;
  shape.panels_for_row = vector.panels_for_row;
  return shape;
}

// Panels [begin, end) of a part.
void MultiplyPanels(const PackedPart& part, std::int64_t columns, std::int64_t begin,
                    std::int64_t end, const Tile& tile, const ProductRows& rows,
                    const VectorKernels& vector) {
  PanelProduct product;
  product.x = rows.x + tile.row_begin * rows.x_stride;
  product.x_stride = rows.x_stride;
  product.rows = tile.row_end - tile.row_begin;
  product.inner = static_cast<int>(columns);
  product.panel_stride = columns * kPanelWidth;
  product.panel_count = static_cast<int>(end - begin);
  product.out = rows.out + tile.row_begin * rows.out_stride + part.first_row + begin * kPanelWidth;
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

// The tile's outputs, with the bias. All parts but the last fill their panels.
void MultiplyTile(const PackedMatrix& w, const Tile& tile, const ProductRows& rows,
                  const VectorKernels& vector) {
  for (const PackedPart& part : w.parts) {
    const std::int64_t first = part.first_row / kPanelWidth;
    const std::int64_t begin = std::max(tile.panel_begin - first, std::int64_t{0});
    const std::int64_t end = std::min(tile.panel_end - first, part.panels());
    if (begin < end) MultiplyPanels(part, w.columns, begin, end, tile, rows, vector);
  }
  if (rows.bias == nullptr) return;
  const std::int64_t column = tile.panel_begin * kPanelWidth;
  const std::int64_t count = std::min(tile.panel_end * kPanelWidth, w.rows) - column;
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    vector.add(rows.bias + column, count, rows.out + row * rows.out_stride + column);
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
              const VectorKernels& vector, ProductThreads& threads) {
  if (rows.rows == 0) return;
  ForEachTile(ShapeOf(w, rows, vector), threads, [&](const Tile& tile) {
    MultiplyTile(w, tile, rows, vector);
    if (more.values == nullptr) return;
    const std::int64_t column = tile.panel_begin * kPanelWidth;
    const std::int64_t count = std::min(tile.panel_end * kPanelWidth, w.rows) - column;
    for (int row = tile.row_begin; row < tile.row_end; ++row) {
      vector.add(rows.out + row * rows.out_stride + column, count,
                 more.values + row * more.stride + column);
    }
  });
}

void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, const GatedRows& gated,
                   const VectorKernels& vector, ProductThreads& threads) {
  BANYAN_CHECK(w.rows % (2 * kPanelWidth) == 0);
  if (rows.rows == 0) return;
  // A tile is panels of gates and the same of ups.
  ProductShape shape = ShapeOf(w, rows, vector);
  const std::int64_t ups = shape.panels / 2;
  shape.panels = ups;
  shape.columns *= 2;
  ForEachTile(shape, threads, [&](const Tile& gates) {
    MultiplyTile(w, gates, rows, vector);
    MultiplyTile(w,
                 {gates.row_begin, gates.row_end, gates.panel_begin + ups, gates.panel_end + ups},
                 rows, vector);
    const std::int64_t column = gates.panel_begin * kPanelWidth;
    const std::int64_t count = (gates.panel_end - gates.panel_begin) * kPanelWidth;
    for (int row = gates.row_begin; row < gates.row_end; ++row) {
      const float* gate = rows.out + row * rows.out_stride + column;
      vector.swiglu(gate, gate + ups * kPanelWidth, count,
                    gated.values + row * gated.stride + column);
    }
  });
}

}  // namespace banyan
