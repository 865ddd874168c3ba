#include "kernels/cpu/product_tiles.h"

#include <algorithm>

namespace banyan {
namespace {

// Nanoseconds, of the right size on the processors seen: 16 multiply-adds; taking a tile; a thread
// that takes part and is waited for.
constexpr double kTermTime = 0.3;
constexpr double kTileTime = 100.0;
constexpr double kThreadTime = 60.0;
// Part of a tile by which the last thread is late.
constexpr double kLateness = 0.25;

template <typename T>
T CeilDivide(T a, T b) {
  return (a + b - 1) / b;
}
template <typename T>
T RoundUp(T a, T b) {
  return CeilDivide(a, b) * b;
}

double TileTime(const ProductShape& shape, int rows, std::int64_t panels) {
  const std::int64_t terms = panels * (shape.panel_terms + rows);
  const std::int64_t least =
      shape.least_panels * (shape.panel_terms + 1);  // else it waits for sums
  return kTileTime + kTermTime * static_cast<double>(shape.columns) *
                         static_cast<double>(std::max(terms, least));
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
  const auto consider = [&](int rows, std::int64_t panel_tiles) {
    // An even number: the widest inner loops take two panels at once.
    const std::int64_t panels =
        std::min(RoundUp(CeilDivide(shape.panels, panel_tiles), std::int64_t{2}), shape.panels);
    const ProductTiles tiles = Tiles(shape, rows, panels);
    const double time = TimeOf(shape, tiles, threads);
    if (time >= least) return;
    least = time;
    best = tiles;
  };
  consider(shape.rows, CeilDivide(shape.panels, shape.least_panels));
  const int blocks = CeilDivide(shape.rows, shape.rows_together);
  for (int parts = 1; parts <= std::min(blocks, threads); parts += parts < 4 ? 1 : 4) {
    const int rows = std::min(CeilDivide(blocks, parts) * shape.rows_together, shape.rows);
    for (int rounds = 1; rounds <= 4; ++rounds) {
      consider(rows, std::min<std::int64_t>(CeilDivide(rounds * threads, parts), shape.panels));
    }
  }
  return best;
}

}  // namespace banyan
