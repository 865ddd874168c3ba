#include "kernels/shards/division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace banyan {
namespace {

using ::testing::ElementsAre;

TEST(Divide, RangesFollowEachOtherAndDifferByAtMostOneUnit) {
  for (const std::int64_t unit : {1, 16}) {
    for (std::int64_t total = 0; total < 200; ++total) {
      for (int shards = 1; shards < 10; ++shards) {
        const std::vector<Stretch> stretches = Divide(total, shards, unit);
        ASSERT_EQ(stretches.size(), static_cast<size_t>(shards));
        std::int64_t next = 0;
        const std::int64_t units = (total + unit - 1) / unit;
        for (const Stretch& stretch : stretches) {
          EXPECT_EQ(stretch.first, next);
          EXPECT_GE(stretch.count, std::min(units / shards * unit, total - next));
          EXPECT_LE(stretch.count, (units + shards - 1) / shards * unit);
          next += stretch.count;
          EXPECT_TRUE(next == total || next % unit == 0);
        }
        EXPECT_EQ(next, total);
      }
    }
  }
}

TEST(Divide, SomeShardsHaveNothingOfFewUnits) {
  EXPECT_THAT(Divide(20, 3, 16), ElementsAre(Stretch{0, 0}, Stretch{0, 16}, Stretch{16, 4}));
}

// Every row of every block belongs to one shard, at the place that follows the shard's earlier
// ones.
TEST(DivideRows, EveryRowIsOnOneShard) {
  for (const std::vector<std::int64_t>& blocks :
       {std::vector<std::int64_t>{70}, {48, 48}, {5, 5}, {64, 16, 16}, {1}}) {
    const std::int64_t rows = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
    for (int shards = 1; shards < 9; ++shards) {
      std::vector<int> seen(static_cast<size_t>(rows));
      for (const std::vector<RowPiece>& pieces : DivideRows(blocks, shards)) {
        std::int64_t place = 0;
        for (const RowPiece& piece : pieces) {
          EXPECT_EQ(piece.place, place);
          place += piece.count;
          for (std::int64_t i = 0; i < piece.count; ++i) {
            ++seen.at(static_cast<size_t>(piece.row + i));
          }
        }
      }
      EXPECT_THAT(seen, ::testing::Each(1)) << shards;
    }
  }
}

// A shard's rows of the gate multiply its rows of up.
TEST(DivideRows, EqualBlocksAreDividedAlike) {
  const std::int64_t blocks[] = {100, 100};
  for (const std::vector<RowPiece>& pieces : DivideRows(blocks, 3)) {
    ASSERT_EQ(pieces.size(), 2u);
    EXPECT_EQ(pieces[1].row, pieces[0].row + 100);
    EXPECT_EQ(pieces[1].count, pieces[0].count);
  }
}

TEST(DivideHeads, FewerThanShardsAreWhole) {
  const HeadDivision few = DivideHeads(2, 3);
  EXPECT_TRUE(few.whole);
  EXPECT_THAT(few.key_heads, ElementsAre(Stretch{0, 2}, Stretch{0, 2}, Stretch{0, 2}));
  const HeadDivision enough = DivideHeads(5, 2);
  EXPECT_FALSE(enough.whole);
  EXPECT_THAT(enough.key_heads, ElementsAre(Stretch{0, 2}, Stretch{2, 3}));
}

TEST(ShapeOfShard, LayersThatDiffer) {
  const KvShape shape{3, 4, 32, {{4, 32}, {1, 64}, {0, 32}}};
  const KvShape own = ShapeOfShard(shape, 2, 1);
  EXPECT_EQ(own.kv_heads, 2);
  EXPECT_EQ(own.Of(0), (KvHeads{2, 32}));
  EXPECT_EQ(own.Of(1), (KvHeads{1, 64}));
  EXPECT_EQ(own.Of(2), (KvHeads{0, 32}));
}

}  // namespace
}  // namespace banyan
