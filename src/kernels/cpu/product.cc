#include "kernels/cpu/product.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

// Blocks of 32 values that a thread quantizes at once: a few microseconds.
constexpr int kBlocksTogether = 256;

}  // namespace

void Int8RowBuffer::Reserve(size_t row_blocks) {
  if (scales_.size() >= row_blocks) return;
  codes_.resize(row_blocks * kBlockColumns);
  for (auto& sums : sums_) sums.resize(row_blocks);
  for (auto& starts : starts_) starts.resize(row_blocks);
  scales_.resize(row_blocks);  // last, as its size says that the others have grown
}

Int8Blocks Int8RowBuffer::From(std::int64_t row_blocks) {
  Int8Blocks from{codes_.data() + row_blocks * kBlockColumns, scales_.data() + row_blocks, {}, {}};
  for (int i = 0; i < 3; ++i) {
    from.sums[i] = sums_[i].data() + row_blocks;
    from.starts[i] = starts_[i].data() + row_blocks;
  }
  return from;
}

Int8Rows Int8RowBuffer::Quantize(const float* x, std::int64_t x_stride, int rows,
                                 std::int64_t columns, const CpuPath& path, ThreadPool& pool) {
  const RowRange all{0, rows};
  return QuantizeRanges(x, x_stride, std::span(&all, 1), columns, path, pool);
}

Int8Rows Int8RowBuffer::QuantizeRanges(const float* x, std::int64_t x_stride,
                                       std::span<const RowRange> ranges, std::int64_t columns,
                                       const CpuPath& path, ThreadPool& pool) {
  BANYAN_CHECK(columns % kBlockColumns == 0);
  const int blocks = static_cast<int>(columns / kBlockColumns);
  const int rows = ranges.empty() ? 0 : ranges.back().end;
  Reserve(static_cast<size_t>(rows) * static_cast<size_t>(blocks));
  const int together = path.integer.rows_together;
  groups_.clear();
  int largest = 1;  // group
  for (const RowRange& range : ranges) {
    for (int row = range.begin; row < range.end; row += together) {
      groups_.push_back({row, std::min(row + together, range.end)});
      largest = std::max(largest, groups_.back().end - row);
    }
  }
  const int part = std::max(1, kBlocksTogether / largest);  // blocks of a group
  const int parts = (blocks + part - 1) / part;
  pool.ForEach(static_cast<std::int64_t>(groups_.size()) * parts, [&](std::int64_t i, int) {
    const RowRange& group = groups_[static_cast<size_t>(i / parts)];
    const int block = static_cast<int>(i % parts) * part;
    const int count = group.end - group.begin;
    path.vector.quantize_rows(
        x + group.begin * x_stride + block * kBlockColumns, x_stride, count,
        std::min(part, blocks - block), path.integer.start_unit,
        From(std::int64_t{group.begin} * blocks + std::int64_t{block} * count));
  });
  Int8Rows quantized{codes_.data(), scales_.data(), {}, {}};
  for (int i = 0; i < 3; ++i) {
    quantized.sums[i] = sums_[i].data();
    quantized.starts[i] = starts_[i].data();
  }
  return quantized;
}

namespace {

// Rows and panels of the whole matrix.
struct Tile {
  int row_begin, row_end;
  std::int64_t panel_begin, panel_end;

  // Outputs of a row, in a matrix of `all` outputs.
  std::int64_t columns(std::int64_t all) const {
    return std::min(panel_end * kPanelWidth, all) - panel_begin * kPanelWidth;
  }
};

// int8 multiply-adds that take the time of one in float32.
constexpr int kInt8PerFloat = 3;

ProductShape ShapeOf(const PackedMatrix& w, const ProductRows& rows, const CpuPath& path) {
  ProductShape shape;
  shape.rows = rows.rows;
  shape.panels = (w.rows + kPanelWidth - 1) / kPanelWidth;
  shape.columns = w.columns;
  const bool quantized = w.parts.front().type == PanelType::kQuantized;
  if (quantized) shape.columns = (w.columns + kInt8PerFloat - 1) / kInt8PerFloat;
  shape.panels_for_row = quantized ? 1 : path.vector.panels_for_row;
  shape.panels_together = quantized ? 1 : path.vector.panels_together;
  // A tile begins with a group of int8 rows, even where only a later part is quantized.
  shape.rows_together = w.quantized() ? path.integer.rows_together : path.vector.rows_together;
  return shape;
}

// What the tiles of a product share.
struct Operands {
  const PackedMatrix& w;
  const ProductRows& rows;
  Int8Rows int8_rows;  // empty unless w is quantized
  const CpuPath& path;
};

// Grows the scratch of all threads before they start, as any of them may take a tile.
void ReserveBytes(std::int64_t count, std::vector<ProductScratch>& threads) {
  for (ProductScratch& scratch : threads) {
    if (static_cast<std::int64_t>(scratch.bytes.size()) < count) {
      scratch.bytes.resize(static_cast<size_t>(count));
    }
  }
}

Int8Rows QuantizeRows(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (!w.quantized()) return {};
  if (std::ranges::any_of(w.parts, [](const PackedPart& part) { return part.layout.nibbles; })) {
    ReserveBytes(w.columns * kPanelWidth, threads.scratch);
  }
  return threads.int8_rows.Quantize(rows.x, rows.x_stride, rows.rows, w.columns, threads.path,
                                    threads.pool);
}

// Where a tile's outputs go: row r and panel p of the tile at values + r * stride + 16 p.
struct TileOut {
  float* values;
  std::int64_t stride;  // floats
  bool add = false;     // add to the values there; quantized parts only
  // Memory of the same shape that is used next and is prefetched meanwhile; null: `values`.
  const float* wanted = nullptr;
  std::int64_t wanted_stride = 0;

  TileOut From(std::int64_t panel) const {
    TileOut from = *this;
    from.values += panel * kPanelWidth;
    if (wanted != nullptr) from.wanted += panel * kPanelWidth;
    return from;
  }
};

// Panels [begin, end) of a quantized part.
void MultiplyQuantized(const PackedPart& part, std::int64_t begin, std::int64_t end,
                       const Tile& tile, const Operands& operands, const TileOut& out,
                       ProductScratch& scratch) {
  const std::int64_t columns = operands.w.columns;
  BANYAN_CHECK(tile.row_begin % operands.path.integer.rows_together == 0);
  IntegerProduct product;
  product.x = operands.int8_rows.From(tile.row_begin * (columns / kBlockColumns));
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
  if (part.type == PanelType::kQuantized) {
    return MultiplyQuantized(part, begin, end, tile, operands, out, scratch);
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

// Rows of a tile that writes its outputs directly: as many as fit the second-level cache as int8,
// so that a panel of nibbles is unpacked once for many rows.
int RowsInCache(const PackedMatrix& w) {
  constexpr std::int64_t kCodeBytes = 512 << 10;
  return kTileRows *
         static_cast<int>(std::max<std::int64_t>(1, kCodeBytes / (kTileRows * w.columns)));
}

// Calls visit(tile, scratch) for all rows and panels of `shape`, in tiles of at most `tile_rows`
// rows; with kTileRows, a tile's outputs stay in cache. A thread passes all its rows over a few
// panels before it takes the next panels, so weights are read once. Neighbouring tiles share
// panels, so threads read the same weights at about the same time.
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

// Whether the inner loops themselves can add a tile's outputs: whole quantized panels, no bias.
bool CanAdd(const PackedMatrix& w, const ProductRows& rows) {
  const auto quantized = [](const PackedPart& part) { return part.type == PanelType::kQuantized; };
  return rows.bias == nullptr && w.rows % kPanelWidth == 0 &&
         std::ranges::all_of(w.parts, quantized);
}

}  // namespace

void Multiply(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (rows.rows == 0) return;
  const Operands operands{w, rows, QuantizeRows(w, rows, threads), threads.path};
  ForEachTile(ShapeOf(w, rows, threads.path), threads, RowsInCache(w),
              [&](const Tile& tile, ProductScratch& scratch) {
                const TileOut out{rows.out + tile.row_begin * rows.out_stride, rows.out_stride};
                MultiplyTile(tile, operands, out.From(tile.panel_begin), scratch);
              });
}

void MultiplyAndAdd(const PackedMatrix& w, const ProductRows& rows, ProductThreads& threads) {
  if (rows.rows == 0) return;
  const Operands operands{w, rows, QuantizeRows(w, rows, threads), threads.path};
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
  // A tile has some panels of the gate and the matching panels of the up projection.
  const Operands operands{w, rows, QuantizeRows(w, rows, threads), threads.path};
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

// Panels of a run that one task multiplies, so that all runs keep the threads busy to the end.
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
  bool quantized = false, nibbles = false;
  threads.ranges.clear();
  for (const MatrixRun& run : runs) {
    BANYAN_CHECK(run.w->rows == outputs && run.w->columns == columns);
    quantized = quantized || run.w->quantized();
    for (const PackedPart& part : run.w->parts) nibbles = nibbles || part.layout.nibbles;
    threads.ranges.push_back(run.rows);
  }
  Int8Rows int8_rows;
  if (quantized) {
    if (nibbles) ReserveBytes(columns * kPanelWidth, threads.scratch);
    int8_rows = threads.int8_rows.QuantizeRanges(rows.x, rows.x_stride, threads.ranges, columns,
                                                 threads.path, threads.pool);
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
    const Int8Rows mine_int8 =
        quantized ? int8_rows.From(run.rows.begin * (columns / kBlockColumns)) : Int8Rows{};
    const Operands operands{*run.w, mine, mine_int8, threads.path};
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
