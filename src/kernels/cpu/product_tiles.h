// How a product is divided among threads. Every output is one chain whatever the tile it is in, so
// this is a matter of time alone.
#pragma once

#include <cstdint>

namespace banyan {

struct ProductShape {
  int rows = 0;
  std::int64_t panels = 0;
  std::int64_t columns = 0;       // terms of a sum
  std::int64_t panel_terms = 1;   // what it costs to read a panel, in rows multiplied with it
  int rows_together = 1;          // rows that the inner loop takes at once
  std::int64_t least_panels = 1;  // panels that one row needs to keep the processor busy
};

// Tiles of `rows` × `panels`, the last ones smaller.
struct ProductTiles {
  int rows = 0;
  std::int64_t panels = 0;
  std::int64_t row_tiles = 0;
  std::int64_t panel_tiles = 0;

  std::int64_t count() const { return row_tiles * panel_tiles; }
};

// The division that should take `threads` threads the least time. REQUIRES: rows and panels > 0.
ProductTiles DivideProduct(const ProductShape& shape, int threads);

}  // namespace banyan
