#include "kernels/cpu/product_tiles.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace banyan {
namespace {

ProductShape Shape(int rows, std::int64_t panels, std::int64_t columns) {
  ProductShape shape;
  shape.rows = rows;
  shape.panels = panels;
  shape.columns = columns;
  shape.rows_together = 12;
  shape.panels_together = 2;
  shape.panels_for_row = 8;
  return shape;
}

// Rows × panels that the busiest thread computes when all tiles take as long as a whole one.
std::int64_t LongestShare(const ProductTiles& tiles, int threads) {
  return (tiles.count() + threads - 1) / threads * tiles.rows * tiles.panels;
}

TEST(ProductTiles, CoverEverythingOnce) {
  for (const int threads : {1, 2, 3, 5, 16, 64}) {
    for (const int rows : {1, 2, 7, 12, 13, 97, 512}) {
      for (const int panels : {1, 2, 3, 24, 64, 257}) {
        SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(rows) + " rows, " +
                     std::to_string(panels) + " panels");
        const ProductTiles tiles = DivideProduct(Shape(rows, panels, 384), threads);
        ASSERT_GT(tiles.rows, 0);
        ASSERT_GT(tiles.panels, 0);
        // The last tile has something, and nothing is left.
        EXPECT_LT((tiles.row_tiles - 1) * tiles.rows, rows);
        EXPECT_GE(tiles.row_tiles * tiles.rows, rows);
        EXPECT_LT((tiles.panel_tiles - 1) * tiles.panels, panels);
        EXPECT_GE(tiles.panel_tiles * tiles.panels, panels);
      }
    }
  }
}

TEST(ProductTiles, OneThreadTakesAll) {
  EXPECT_EQ(DivideProduct(Shape(512, 64, 384), 1).count(), 1);
}

// The products of a small model, whose matrices have few panels.
TEST(ProductTiles, ManyRowsKeepAllThreadsBusy) {
  for (const int threads : {2, 4, 8, 16}) {
    for (const int rows : {128, 256, 500, 512}) {
      for (const int panels : {24, 56, 64, 256}) {
        const ProductTiles tiles = DivideProduct(Shape(rows, panels, 384), threads);
        const double even = static_cast<double>(rows) * panels / threads;
        EXPECT_LT(static_cast<double>(LongestShare(tiles, threads)), 1.35 * even)
            << threads << " threads, " << rows << " rows, " << panels << " panels: tiles of "
            << tiles.rows << " x " << tiles.panels;
      }
    }
  }
}

// What takes a microsecond in all is not worth sixteen threads.
TEST(ProductTiles, SmallWorkGoesToFewThreads) {
  EXPECT_EQ(DivideProduct(Shape(1, 4, 32), 16).count(), 1);
  EXPECT_LE(DivideProduct(Shape(1, 24, 384), 16).count(), 6);
  EXPECT_GE(DivideProduct(Shape(1, 3000, 576), 16).count(), 16);
}

TEST(ProductTiles, RememberedDivisionsAreTheSame) {
  ProductDivisions divisions(16);
  for (int round = 0; round < 2; ++round) {
    for (int rows = 1; rows < 300; ++rows) {
      const ProductShape shape = Shape(rows, 24 + rows % 3, 384);
      const ProductTiles expected = DivideProduct(shape, 16);
      const ProductTiles& found = divisions.Of(shape);
      EXPECT_EQ(found.rows, expected.rows);
      EXPECT_EQ(found.panels, expected.panels);
      EXPECT_EQ(found.count(), expected.count());
    }
  }
}

}  // namespace
}  // namespace banyan
