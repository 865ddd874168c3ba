// The specification of the canonical order, in numbers: a naive attention executes plans literally,
// and every plan of a step must give each row the very bits of the row evaluated alone along its
// declared segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "plan/build.h"
#include "support/plan_forest.h"

namespace banyan {
namespace {

constexpr int kHeadDim = 3;
using HeadVector = std::array<float, kHeadDim>;

// Attention over some keys, not yet divided by the sum of weights. Empty when no key was seen.
struct Partial {
  float maximum = -std::numeric_limits<float>::infinity();  // of the scores
  float sum = 0;                                            // of exp(score - maximum)
  HeadVector value{};                                       // sum of exp(score - maximum) * V

  bool empty() const { return sum == 0; }
};

Partial Merge(const Partial& left, const Partial& right) {
  if (left.empty()) return right;
  if (right.empty()) return left;
  Partial merged;
  merged.maximum = std::max(left.maximum, right.maximum);
  const float left_scale = std::exp(left.maximum - merged.maximum);
  const float right_scale = std::exp(right.maximum - merged.maximum);
  merged.sum = left.sum * left_scale + right.sum * right_scale;
  for (int d = 0; d < kHeadDim; ++d) {
    merged.value[d] = left.value[d] * left_scale + right.value[d] * right_scale;
  }
  return merged;
}

HeadVector Finish(const Partial& total) {
  HeadVector out{};
  if (total.empty()) return out;
  for (int d = 0; d < kHeadDim; ++d) out[d] = total.value[d] / total.sum;
  return out;
}

// Queries of the rows, keys and values of the pages, and which keys a row may see.
class Memory {
 public:
  Memory(const PlanForest& forest, int window, std::uint32_t seed)
      : positions_(forest.positions()),
        window_(window),
        queries_(forest.rows()),
        keys_(forest.pages() * kPageTokens),
        values_(forest.pages() * kPageTokens) {
    std::mt19937 random(seed);
    for (std::vector<HeadVector>* vectors : {&queries_, &keys_, &values_}) {
      for (HeadVector& vector : *vectors) {
        for (float& x : vector) x = static_cast<float>(random()) * 0x1p-30f - 2.0f;
      }
    }
  }

  struct Key {
    int slot = 0;
    int position = 0;
  };

  // One cut (or what exists of it), from nothing: keys in order.
  Partial AttendCut(int row, const std::vector<Key>& cut) const {
    std::vector<float> scores;
    std::vector<int> slots;
    for (const Key& key : cut) {
      const bool visible = key.position <= positions_[row] &&
                           (window_ == 0 || positions_[row] - key.position < window_);
      if (!visible) continue;
      float score = 0;
      for (int d = 0; d < kHeadDim; ++d) score += queries_[row][d] * keys_[key.slot][d];
      scores.push_back(score);
      slots.push_back(key.slot);
    }
    Partial partial;
    for (float score : scores) partial.maximum = std::max(partial.maximum, score);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float weight = std::exp(scores[i] - partial.maximum);
      partial.sum += weight;
      for (int d = 0; d < kHeadDim; ++d) partial.value[d] += weight * values_[slots[i]][d];
    }
    return partial;
  }

 private:
  const std::vector<std::int32_t>& positions_;
  const int window_;
  std::vector<HeadVector> queries_;        // [rows]
  std::vector<HeadVector> keys_, values_;  // [pages * kPageTokens]
};

using Key = Memory::Key;

// --- A row alone -------------------------------------------------------------------------------

// The declared segments of the path that ends in `node`: spans of one segment joined.
std::vector<std::vector<Key>> SegmentsOfPath(const std::vector<PlanNode>& nodes, int node) {
  std::vector<std::vector<Key>> segments;
  if (nodes[node].parent >= 0) segments = SegmentsOfPath(nodes, nodes[node].parent);
  if (!nodes[node].continues_parent) segments.emplace_back();
  for (int i = 0; i < nodes[node].length; ++i) {
    const int slot = nodes[node].pages[i / kPageTokens] * kPageTokens + i % kPageTokens;
    segments.back().push_back({slot, nodes[node].first_position + i});
  }
  return segments;
}

HeadVector AttendAlone(const Memory& memory, int row,
                       const std::vector<std::vector<Key>>& segments) {
  Partial total;
  for (const std::vector<Key>& segment : segments) {
    const int length = static_cast<int>(segment.size());
    for (int chunk_begin = 0; chunk_begin < length; chunk_begin += kChunkKeys) {
      const int chunk_end = std::min(length, chunk_begin + kChunkKeys);
      Partial chunk;
      for (int group_begin = chunk_begin; group_begin < chunk_end; group_begin += kGroupKeys) {
        const int group_end = std::min(chunk_end, group_begin + kGroupKeys);
        Partial group;
        for (int cut_begin = group_begin; cut_begin < group_end; cut_begin += kCutKeys) {
          const int cut_end = std::min(group_end, cut_begin + kCutKeys);
          const std::vector<Key> cut(segment.begin() + cut_begin, segment.begin() + cut_end);
          group = Merge(group, memory.AttendCut(row, cut));
        }
        chunk = Merge(chunk, group);
      }
      total = Merge(total, chunk);
    }
  }
  return Finish(total);
}

std::vector<HeadVector> AttendEachAlone(const Memory& memory, const PlanForest& forest) {
  std::vector<HeadVector> out(forest.rows());
  for (int node = 0; node < static_cast<int>(forest.nodes().size()); ++node) {
    const std::vector<std::vector<Key>> segments = SegmentsOfPath(forest.nodes(), node);
    for (int row = forest.nodes()[node].row_begin; row < forest.nodes()[node].row_end; ++row) {
      out[row] = AttendAlone(memory, row, segments);
    }
  }
  return out;
}

// --- A plan ------------------------------------------------------------------------------------

// An item's cuts, and its groups if it has several, merged from the left on the way.
Partial AttendItem(const Memory& memory, const AttentionPlan& plan, const WorkItem& item, int row) {
  const KvSpan& span = plan.spans[item.span];
  Partial run, group;
  for (int cut_begin = item.key_begin; cut_begin < item.key_end; cut_begin += kCutKeys) {
    std::vector<Key> cut;
    for (int i = cut_begin; i < std::min(item.key_end, cut_begin + kCutKeys); ++i) {
      const int page = plan.pages[span.first_page + i / kPageTokens];
      cut.push_back({page * kPageTokens + i % kPageTokens, span.first_position + i});
    }
    if ((cut_begin - item.key_begin) % kGroupKeys == 0) {
      run = Merge(run, group);
      group = Partial();
    }
    group = Merge(group, memory.AttendCut(row, cut));
  }
  return Merge(run, group);
}

std::vector<HeadVector> Execute(const Memory& memory, const AttentionPlan& plan, int rows) {
  std::vector<Partial> partials(plan.partials);
  for (const WorkItem& item : plan.items) {
    for (int row = item.reader_begin; row < item.reader_end; ++row) {
      partials[item.first_partial + row - item.reader_begin] = AttendItem(memory, plan, item, row);
    }
  }
  std::vector<HeadVector> out(rows);
  for (int row = 0; row < rows; ++row) {
    Partial total, chunk, group;
    for (int i = plan.merge_begin[row]; i < plan.merge_begin[row + 1]; ++i) {
      if (plan.merges[i].opens != Opening::kCut) {
        chunk = Merge(chunk, group);
        group = Partial();
      }
      if (plan.merges[i].opens == Opening::kChunk) {
        total = Merge(total, chunk);
        chunk = Partial();
      }
      group = Merge(group, partials[plan.merges[i].partial]);
    }
    out[row] = Finish(Merge(total, Merge(chunk, group)));
  }
  return out;
}

// -----------------------------------------------------------------------------------------------

int DifferentRows(const std::vector<HeadVector>& a, const std::vector<HeadVector>& b) {
  int different = 0;
  for (std::size_t row = 0; row < a.size(); ++row) {
    using Bits = std::array<std::uint32_t, kHeadDim>;
    different += std::bit_cast<Bits>(a[row]) != std::bit_cast<Bits>(b[row]);
  }
  return different;
}

void ExpectSameBits(const PlanForest& forest, std::uint32_t seed, std::size_t variant_step) {
  const std::vector<PlanVariant> variants = AllPlanVariants();
  for (int window : {0, 1, 200, 1500}) {
    const Memory memory(forest, window, seed);
    const std::vector<HeadVector> alone = AttendEachAlone(memory, forest);
    for (std::size_t i = (seed + window) % variant_step; i < variants.size(); i += variant_step) {
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), variants[i].options);
      EXPECT_EQ(DifferentRows(Execute(memory, plan, forest.rows()), alone), 0)
          << "seed " << seed << ", window " << window << ": " << variants[i].name;
    }
  }
}

TEST(CanonicalOrder, RandomForestsGiveEachRowTheBitsOfItAlone) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const PlanForest forest = RandomForest(seed, {.roots = 2, .depth = 4, .own_rows = 9}).Take();
    ExpectSameBits(forest, seed, 17);
  }
}

TEST(CanonicalOrder, PrefillAcrossGroupsAndSpansUnderEveryOption) {
  PlanForest forest;
  const int first = forest.Add({.length = 5 * kCutKeys, .own_rows = 2});
  const int second = forest.Add({.parent = first,
                                 .length = 4 * kCutKeys,
                                 .own_rows = 6,
                                 .stack = 0,
                                 .continues_parent = true});
  forest.Add(
      {.parent = second, .length = 130, .own_rows = 4, .stack = 0, .continues_parent = true});
  forest.Add({.parent = second, .length = 17, .own_rows = 1, .stack = 0});
  forest.Add({.parent = first, .length = 500, .own_rows = 3, .continues_parent = true});
  ExpectSameBits(forest, 1, 1);
}

TEST(CanonicalOrder, ChunksOfSeveralSegmentsAndSpans) {
  PlanForest forest;
  const int first = forest.Add({.length = kChunkKeys + 2 * kGroupKeys, .own_rows = 2});
  const int second = forest.Add({.parent = first,
                                 .length = 3 * kGroupKeys + kCutKeys,
                                 .own_rows = 2,
                                 .continues_parent = true});
  forest.Add({.parent = second, .length = 3000, .own_rows = 3, .continues_parent = true});
  const int other = forest.Add({.parent = first, .length = 2 * kGroupKeys + 5});
  forest.Add({.parent = other, .length = 2 * kChunkKeys + 808, .own_rows = 3});
  ExpectSameBits(forest, 2, 3);
}

// Order must matter in these numbers, or the tests above show nothing.
TEST(CanonicalOrder, OtherOrdersGiveOtherBits) {
  PlanForest forest;
  const int p = forest.Add({.length = 2500});
  const int c = forest.Add({.parent = p, .length = 2500});
  for (int i = 0; i < 16; ++i) forest.Add({.parent = c, .length = 300, .own_rows = 1});
  const Memory memory(forest, 0, 1);
  const AttentionPlan plan =
      BuildPlan(forest.nodes(), forest.positions(), {.min_items = 1'000'000});
  const std::vector<HeadVector> right = Execute(memory, plan, forest.rows());

  AttentionPlan ungrouped = plan;
  for (MergeEntry& entry : ungrouped.merges) {
    if (entry.opens == Opening::kCut) entry.opens = Opening::kGroup;
  }
  EXPECT_GT(DifferentRows(Execute(memory, ungrouped, forest.rows()), right), 4);

  AttentionPlan unchunked = plan;
  for (MergeEntry& entry : unchunked.merges) {
    if (entry.opens == Opening::kGroup) entry.opens = Opening::kChunk;
  }
  EXPECT_GT(DifferentRows(Execute(memory, unchunked, forest.rows()), right), 4);

  AttentionPlan reversed = plan;
  for (int row = 0; row < forest.rows(); ++row) {
    std::reverse(reversed.merges.begin() + plan.merge_begin[row],
                 reversed.merges.begin() + plan.merge_begin[row + 1]);
  }
  EXPECT_GT(DifferentRows(Execute(memory, reversed, forest.rows()), right), 4);
}

}  // namespace
}  // namespace banyan
