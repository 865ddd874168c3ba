#include "kernels/cpu/product.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

// Rows and panels of the whole matrix.
struct Tile {
  int row_begin, row_end;
  std::int64_t panel_begin, panel_end;

  // Outputs of a row, of a matrix that has so many.
  std::int64_t columns(std::int64_t all) const {
    return std::min(panel_end * kPanelWidth, all) - panel_begin * kPanelWidth;
  }
};

// Multiply-adds of codes that take the time of one in float32.
constexpr int kCodesForFloat = 3;

ProductShape ShapeOf(const PackedMatrix& w, const ProductRows& rows, const CpuPath& path) {
  ProductShape shape;
  shape.rows = rows.rows;
  shape.panels = (w.rows + kPanelWidth - 1) / kPanelWidth;
  shape.columns = w.columns;
  const bool codes = w.parts.front().type == PanelType::kCodes;
  if (codes) shape.columns = (w.columns + kCodesForFloat - 1) / kCodesForFloat;
  shape.panels_for_row = codes ? 1 : path.vector.panels_for_row;
  shape.panels_together = codes ? 1 : path.vector.panels_together;
  // Where a later part has codes, too: tiles begin with a group of coded rows.
  shape.rows_together = w.has_codes() ? path.integer.rows_together : path.vector.rows_together;
  return shape;
}

// What the tiles of a product share.
struct Operands {
  const PackedMatrix& w;
  const ProductRows& rows;
  CodedRows coded;  // the rows again, where w has codes
  const CpuPath& path;
};

// Of all threads, before they start: whether one of them has worked before does not matter then.
void ReserveBytes(std::int64_t count, std::vector<ProductScratch>& threads) {
  for (ProductScratch& scratch : threads) {
    if (static_cast<std::int64_t>(scratch.bytes.size()) < count) {
      scratch.bytes.resize(static_cast<size_t>(count));
    }
  }
}

CodedRows CodeRows(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (!w.has_codes()) return {};
  if (std::ranges::any_of(w.parts, [](const PackedPart& part) { return part.layout.nibbles; })) {
    ReserveBytes(w.columns * kPanelWidth, threads.scratch);
  }
  return threads.coded.Code(rows.x, rows.x_stride, rows.rows, w.columns, threads.path,
                            threads.pool);
}

// Where a tile's outputs go: row r and panel p of the tile at values + r * stride + 16 p.
struct TileOut {
  float* values;
  std::int64_t stride;  // floats
  bool add = false;     // to what is there; codes only
  // What is read or written next, likewise, where it is another place; codes are multiplied while
  // memory fetches it.
  const float* wanted = nullptr;
  std::int64_t wanted_stride = 0;

  TileOut From(std::int64_t panel) const {
    TileOut from = *this;
    from.values += panel * kPanelWidth;
    if (wanted != nullptr) from.wanted += panel * kPanelWidth;
    return from;
  }
};

// Panels [begin, end) of a part of codes.
void MultiplyCodes(const PackedPart& part, std::int64_t begin, std::int64_t end, const Tile& tile,
                   const Operands& operands, const TileOut& out, ProductScratch& scratch) {
  const std::int64_t columns = operands.w.columns;
  BANYAN_CHECK(tile.row_begin % operands.path.integer.rows_together == 0);
  IntegerProduct product;
  product.x = operands.coded.From(tile.row_begin * (columns / kBlockColumns));
  product.rows = tile.row_end - tile.row_begin;
  product.columns = static_cast<int>(columns);
  product.panel_stride = part.layout.PanelBytes(columns);
  product.panels = part.codes.data() + begin * product.panel_stride;
  product.panel_count = static_cast<int>(end - begin);
  product.nibbles = part.layout.nibbles;
  if (product.nibbles) product.scratch = scratch.bytes.data();
  product.offset = part.layout.offset;
  if (part.layout.book != nullptr) product.book = part.layout.book->values.data();
  product.group = part.group;
  const std::int64_t scale = begin * kPanelWidth * (columns / part.group);
  product.scales = part.scales.data() + scale;
  product.minima = part.minima.empty() ? nullptr : part.minima.data() + scale;
  product.out = out.values;
  product.out_stride = out.stride;
  product.add = out.add;
  product.wanted = out.wanted == nullptr ? out.values : out.wanted;
  product.wanted_stride = out.wanted == nullptr ? out.stride : out.wanted_stride;
  operands.path.integer.product(product);
}

// Panels [begin, end) of a part.
void MultiplyPanels(const PackedPart& part, std::int64_t begin, std::int64_t end, const Tile& tile,
                    const Operands& operands, const TileOut& out, ProductScratch& scratch) {
  if (part.type == PanelType::kCodes) {
    return MultiplyCodes(part, begin, end, tile, operands, out, scratch);
  }
  const ProductRows& rows = operands.rows;
  PanelProduct product;
  product.x = rows.x + tile.row_begin * rows.x_stride;
  product.x_stride = rows.x_stride;
  product.rows = tile.row_end - tile.row_begin;
  product.inner = static_cast<int>(operands.w.columns);
  product.panel_stride = operands.w.columns * kPanelWidth;
  product.panel_count = static_cast<int>(end - begin);
  product.out = out.values;
  product.out_stride = out.stride;
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
void MultiplyTile(const Tile& tile, const Operands& operands, const TileOut& out,
                  ProductScratch& scratch) {
  for (const PackedPart& part : operands.w.parts) {
    const std::int64_t first = part.first_row / kPanelWidth;
    const std::int64_t begin = std::max(tile.panel_begin - first, std::int64_t{0});
    const std::int64_t end = std::min(tile.panel_end - first, part.panels());
    if (begin >= end) continue;
    MultiplyPanels(part, begin, end, tile, operands, out.From(first + begin - tile.panel_begin),
                   scratch);
  }
  const float* bias = operands.rows.bias;
  if (bias == nullptr) return;
  const std::int64_t column = tile.panel_begin * kPanelWidth;
  const std::int64_t count = tile.columns(operands.w.rows);
  for (int row = 0; row < tile.row_end - tile.row_begin; ++row) {
    operands.path.vector.add(bias + column, count, out.values + row * out.stride);
  }
}

// Rows of a tile whose outputs are where they belong: as many as stay in the second-level cache as
// codes, so that nibbles become bytes for many.
int RowsInCache(const PackedMatrix& w) {
  constexpr std::int64_t kCodes = 512 << 10;
  return kTileRows * static_cast<int>(std::max<std::int64_t>(1, kCodes / (kTileRows * w.columns)));
}

// visit(tile, scratch) for all rows and panels of `shape`, in tiles of at most `tile_rows` rows:
// with kTileRows their outputs stay in cache for what follows. Of the rows and panels that a thread
// takes, all rows meet some panels, then the next, so that weights are read once. Tiles of the same
// panels are neighbours, so that threads read them at about the same time.
template <typename Visit>
void ForEachTile(const ProductShape& shape, ProductThreads& threads, int tile_rows,
                 const Visit& visit) {
  const ProductTiles& tiles = threads.divisions.Of(shape);
  threads.pool.ForEach(tiles.count(), [&](std::int64_t index, int worker) {
    const int row_begin = static_cast<int>(index % tiles.row_tiles) * tiles.rows;
    const int row_end = std::min(row_begin + tiles.rows, shape.rows);
    const std::int64_t panel_begin = index / tiles.row_tiles * tiles.panels;
    const std::int64_t panel_end = std::min(panel_begin + tiles.panels, shape.panels);
    for (std::int64_t panel = panel_begin; panel < panel_end; panel += kTilePanels) {
      const std::int64_t next = std::min(panel + kTilePanels, panel_end);
      for (int row = row_begin; row < row_end;) {
        const int end = row + std::min(tile_rows, row_end - row);
        visit(Tile{row, end, panel, next}, threads.scratch[static_cast<size_t>(worker)]);
        row = end;
      }
    }
  });
}

// Whether a tile's outputs, in whole panels and without a bias, may be added by the loops
// themselves.
bool CanAdd(const PackedMatrix& w, const ProductRows& rows) {
  const auto coded = [](const PackedPart& part) { return part.type == PanelType::kCodes; };
  return rows.bias == nullptr && w.rows % kPanelWidth == 0 && std::ranges::all_of(w.parts, coded);
}

}  // namespace

void Multiply(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (rows.rows == 0) return;
  const Operands operands{w, rows, CodeRows(w, rows, threads), threads.path};
  ForEachTile(ShapeOf(w, rows, threads.path), threads, RowsInCache(w),
              [&](const Tile& tile, ProductScratch& scratch) {
                const TileOut out{rows.out + tile.row_begin * rows.out_stride, rows.out_stride};
                MultiplyTile(tile, operands, out.From(tile.panel_begin), scratch);
              });
}

void MultiplyAndAdd(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (rows.rows == 0) return;
  const Operands operands{w, rows, CodeRows(w, rows, threads), threads.path};
  const bool at_once = CanAdd(w, rows);
  ForEachTile(ShapeOf(w, rows, threads.path), threads, at_once ? RowsInCache(w) : kTileRows,
              [&](const Tile& tile, ProductScratch& scratch) {
                float* out =
                    rows.out + tile.row_begin * rows.out_stride + tile.panel_begin * kPanelWidth;
                if (at_once)
                  return MultiplyTile(tile, operands, {out, rows.out_stride, true}, scratch);
                const TileOut product{scratch.outputs, kTilePanels * kPanelWidth};
                MultiplyTile(tile, operands, product, scratch);
                for (int row = 0; row < tile.row_end - tile.row_begin; ++row) {
                  threads.path.vector.add(product.values + row * product.stride,
                                          tile.columns(w.rows), out + row * rows.out_stride);
                }
              });
}

void MultiplyGated(const PackedMatrix& w, const ProductRows& rows, GluLoop glu,
                   ProductThreads& threads) {
  BANYAN_CHECK(w.rows % (2 * kPanelWidth) == 0);
  if (rows.rows == 0) return;
  // A tile is panels of gates and the same of ups.
  const Operands operands{w, rows, CodeRows(w, rows, threads), threads.path};
  ProductShape shape = ShapeOf(w, rows, threads.path);
  const std::int64_t between = shape.panels / 2;
  shape.panels = between;
  shape.columns *= 2;
  ForEachTile(shape, threads, kTileRows, [&](const Tile& gates, ProductScratch& scratch) {
    const Tile ups{gates.row_begin, gates.row_end, gates.panel_begin + between,
                   gates.panel_end + between};
    float* out = rows.out + gates.row_begin * rows.out_stride + gates.panel_begin * kPanelWidth;
    const TileOut up{scratch.outputs, 2 * kTilePanels * kPanelWidth};
    TileOut gate = up.From(kTilePanels);
    gate.wanted = out;
    gate.wanted_stride = rows.out_stride;
    MultiplyTile(ups, operands, up, scratch);
    MultiplyTile(gates, operands, gate, scratch);
    const std::int64_t count = (gates.panel_end - gates.panel_begin) * kPanelWidth;
    for (int row = 0; row < gates.row_end - gates.row_begin; ++row) {
      glu(gate.values + row * gate.stride, up.values + row * up.stride, count,
          out + row * rows.out_stride);
    }
  });
}

namespace {

// What is multiplied of a run at once, so that all runs together keep the threads busy to the end.
std::int64_t PanelsOfTask(std::int64_t panels, size_t runs, int threads) {
  constexpr std::int64_t kTasksOfThread = 4;
  const std::int64_t tasks = kTasksOfThread * threads;
  const std::int64_t all = panels * static_cast<std::int64_t>(runs);
  return std::clamp<std::int64_t>(all / tasks, 1, panels);
}

}  // namespace

void MultiplyRuns(std::span<const MatrixRun> runs, const ProductRows& rows,
                  ProductThreads& threads) {
  if (runs.empty()) return;
  const std::int64_t outputs = runs.front().w->rows, columns = runs.front().w->columns;
  bool codes = false, nibbles = false;
  threads.ranges.clear();
  for (const MatrixRun& run : runs) {
    BANYAN_CHECK(run.w->rows == outputs && run.w->columns == columns);
    codes = codes || run.w->has_codes();
    for (const PackedPart& part : run.w->parts) nibbles = nibbles || part.layout.nibbles;
    threads.ranges.push_back(run.rows);
  }
  CodedRows coded;
  if (codes) {
    if (nibbles) ReserveBytes(columns * kPanelWidth, threads.scratch);
    coded = threads.coded.CodeRanges(rows.x, rows.x_stride, threads.ranges, columns, threads.path,
                                     threads.pool);
  }
  const std::int64_t panels = (outputs + kPanelWidth - 1) / kPanelWidth;
  const std::int64_t of_task = PanelsOfTask(panels, runs.size(), threads.pool.size());
  const std::int64_t tasks_of_run = (panels + of_task - 1) / of_task;
  threads.pool.ForEach(static_cast<std::int64_t>(runs.size()) * tasks_of_run, [&](std::int64_t task,
                                                                                  int worker) {
    const MatrixRun& run = runs[static_cast<size_t>(task / tasks_of_run)];
    ProductRows mine = rows;
    mine.x += run.rows.begin * rows.x_stride;
    mine.out += run.rows.begin * rows.out_stride;
    mine.rows = run.rows.end - run.rows.begin;
    mine.bias = run.bias;
    const CodedRows mine_coded =
        codes ? coded.From(run.rows.begin * (columns / kBlockColumns)) : CodedRows{};
    const Operands operands{*run.w, mine, mine_coded, threads.path};
    const std::int64_t begin = task % tasks_of_run * of_task;
    const std::int64_t end = std::min(begin + of_task, panels);
    for (std::int64_t panel = begin; panel < end; panel += kTilePanels) {
      for (int row = 0; row < mine.rows; row += kTileRows) {
        const Tile tile{row, std::min(row + kTileRows, mine.rows), panel,
                        std::min(panel + kTilePanels, end)};
        const TileOut out{mine.out + row * mine.out_stride, mine.out_stride};
        MultiplyTile(tile, operands, out.From(panel), threads.scratch[static_cast<size_t>(worker)]);
      }
    }
  });
}

}  // namespace banyan
