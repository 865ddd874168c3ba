// How a product is divided among threads: in tiles that begin at a multiple of rows_together. An
// output is one chain in any tile, so the division changes only the time.
#pragma once

#include <array>
#include <cstdint>

namespace banyan {

struct ProductShape {
  int rows = 0;
  std::int64_t panels = 0;
  std::int64_t columns = 0;  // terms of a sum
  int rows_together = 1;     // rows and panels that the inner loop takes at once
  int panels_together = 1;
  int panels_for_row = 1;  // panels that one row needs to keep the processor busy

  bool operator==(const ProductShape&) const = default;
};

// Tiles of `rows` × `panels`, the last ones smaller.
struct ProductTiles {
  int rows = 0;
  std::int64_t panels = 0;
  std::int64_t row_tiles = 0;
  std::int64_t panel_tiles = 0;

  std::int64_t count() const { return row_tiles * panel_tiles; }
};

// The division with the least estimated time on `threads` threads. REQUIRES: rows and panels > 0.
ProductTiles DivideProduct(const ProductShape& shape, int threads);

// Caches divisions, as the layers of a model and most steps have the same products.
class ProductDivisions {
 public:
  explicit ProductDivisions(int threads) : threads_(threads) {}
  const ProductTiles& Of(const ProductShape& shape);

 private:
  struct Entry {
    ProductShape shape;
    ProductTiles tiles;
  };
  int threads_;
  std::array<Entry, 64> entries_;  // by a hash of the shape
};

}  // namespace banyan
