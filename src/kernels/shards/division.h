// How outputs, heads and key heads are divided among shards. Every part is a range; nothing that is
// divided is summed over shards, so no bit of a result depends on how many there are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace banyan {

struct Stretch {
  std::int64_t first = 0, count = 0;
  bool operator==(const Stretch&) const = default;
};

// [0, total) in `shards` ranges whose sizes differ by at most one unit and are multiples of it, the
// last one apart. Some are empty where there are fewer units than shards.
std::vector<Stretch> Divide(std::int64_t total, int shards, std::int64_t unit);

// A range of a matrix's rows that one shard has.
struct RowPiece {
  std::int64_t row = 0;    // in the whole matrix
  std::int64_t place = 0;  // among the shard's own rows
  std::int64_t count = 0;
  bool operator==(const RowPiece&) const = default;
};

// The pieces of each shard: of every block of rows a range, in the order of blocks.
std::vector<std::vector<RowPiece>> DivideRows(std::span<const std::int64_t> blocks, int shards);

// The key heads of each shard. Where there are fewer than shards, every shard has all of them, and
// computes the layer's attention by itself.
struct HeadDivision {
  bool whole = false;
  std::vector<Stretch> key_heads;  // [shards]
};
HeadDivision DivideHeads(int key_heads, int shards);

// What shard `shard` keeps of memory of that shape.
KvShape ShapeOfShard(const KvShape& shape, int shards, int shard);

}  // namespace banyan
