#include "kernels/shards/division.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {
namespace {

// Panels of the cpu backend have as many outputs (kPanelWidth); other backends like such ranges.
constexpr std::int64_t kRowUnit = 16;

}  // namespace

std::vector<Stretch> Divide(std::int64_t total, int shards, std::int64_t unit) {
  BANYAN_CHECK(total >= 0 && shards > 0 && unit > 0);
  const std::int64_t units = (total + unit - 1) / unit;
  std::vector<Stretch> stretches;
  std::int64_t first = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const std::int64_t end = std::min(total, units * (shard + 1) / shards * unit);
    stretches.push_back({first, end - first});
    first = end;
  }
  return stretches;
}

std::vector<std::vector<RowPiece>> DivideRows(std::span<const std::int64_t> blocks, int shards) {
  std::vector<std::vector<RowPiece>> pieces(static_cast<size_t>(shards));
  std::vector<std::int64_t> places(static_cast<size_t>(shards));
  std::int64_t row = 0;
  for (const std::int64_t block : blocks) {
    const std::vector<Stretch> stretches = Divide(block, shards, kRowUnit);
    for (size_t shard = 0; shard < stretches.size(); ++shard) {
      const Stretch& stretch = stretches[shard];
      if (stretch.count == 0) continue;
      pieces[shard].push_back({row + stretch.first, places[shard], stretch.count});
      places[shard] += stretch.count;
    }
    row += block;
  }
  return pieces;
}

HeadDivision DivideHeads(int key_heads, int shards) {
  HeadDivision division{.whole = key_heads < shards, .key_heads = {}};
  if (division.whole) {
    division.key_heads.assign(static_cast<size_t>(shards), {0, key_heads});
  } else {
    division.key_heads = Divide(key_heads, shards, 1);
  }
  return division;
}

KvShape ShapeOfShard(const KvShape& shape, int shards, int shard) {
  const auto heads = [&](int all) {
    return static_cast<int>(DivideHeads(all, shards).key_heads[static_cast<size_t>(shard)].count);
  };
  KvShape own = shape;
  own.kv_heads = heads(shape.kv_heads);
  for (KvHeads& layer : own.by_layer) layer.heads = heads(layer.heads);
  return own;
}

}  // namespace banyan
