#include "kernels/cpu/product_tiles.h"

#include <algorithm>

namespace banyan {
namespace {

// Typical nanoseconds: of 16 multiply-adds; of taking a tile; of starting and joining a thread.
constexpr double kTermTime = 0.3;
constexpr double kTileTime = 100.0;
constexpr double kThreadTime = 60.0;
// Fraction of a tile by which the last thread is late.
constexpr double kLateness = 0.3;
// Extra cost of a single panel where the loop takes several, in panels.
constexpr double kLonePanel = 0.3;

// Candidates: parts that rows are divided into, and panels of a tile.
constexpr int kRowParts[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32};
constexpr int kPanels[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128};

template <typename T>
T CeilDivide(T a, T b) {
  return (a + b - 1) / b;
}

double TileTime(const ProductShape& shape, int rows, std::int64_t panels) {
  const bool lone = panels % shape.panels_together != 0;
  const double passes = static_cast<double>(panels) + (lone ? kLonePanel : 0.0);
  // With fewer chains than panels_for_row gives, the processor waits for sums. Reading a panel
  // costs as much as multiplying one row with it.
  const double terms = passes + std::max<double>(passes * rows, shape.panels_for_row);
  return kTileTime + kTermTime * static_cast<double>(shape.columns) * terms;
}

ProductTiles Tiles(const ProductShape& shape, int rows, std::int64_t panels) {
  return {rows, panels, CeilDivide(shape.rows, rows), CeilDivide(shape.panels, panels)};
}

double TimeOf(const ProductShape& shape, const ProductTiles& tiles, int threads) {
  const double tile = TileTime(shape, tiles.rows, tiles.panels);
  const std::int64_t rounds = CeilDivide<std::int64_t>(tiles.count(), threads);
  const double late = tiles.count() > 1 ? kLateness * tile : 0.0;
  const auto taking_part = static_cast<double>(std::min<std::int64_t>(tiles.count(), threads));
  return static_cast<double>(rounds) * tile + late + kThreadTime * taking_part;
}

}  // namespace

ProductTiles DivideProduct(const ProductShape& shape, int threads) {
  ProductTiles best = Tiles(shape, shape.rows, shape.panels);
  if (threads <= 1) return best;
  double least = TimeOf(shape, best, threads);
  const int blocks = CeilDivide(shape.rows, shape.rows_together);
  for (const int parts : kRowParts) {
    if (parts > blocks) break;
    const int rows = std::min(CeilDivide(blocks, parts) * shape.rows_together, shape.rows);
    for (const int panels : kPanels) {
      if (panels >= shape.panels && parts == 1) break;
      const ProductTiles tiles = Tiles(shape, rows, std::min<std::int64_t>(panels, shape.panels));
      const double time = TimeOf(shape, tiles, threads);
      if (time >= least) continue;
      least = time;
      best = tiles;
    }
  }
  return best;
}

const ProductTiles& ProductDivisions::Of(const ProductShape& shape) {
  const std::uint64_t key = static_cast<std::uint64_t>(shape.rows) * 0x9e3779b97f4a7c15u +
                            static_cast<std::uint64_t>(shape.panels) * 0xc2b2ae3d27d4eb4fu +
                            static_cast<std::uint64_t>(shape.columns) * 0x165667b19e3779f9u;
  Entry& entry = entries_[key >> 58];
  if (entry.shape != shape) entry = {shape, DivideProduct(shape, threads_)};
  return entry.tiles;
}

}  // namespace banyan
