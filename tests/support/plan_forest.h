// Forests of plan nodes for tests: written as literals, or grown at random around every boundary
// that a plan knows (page, cut, group, chunk, block of rows).
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "plan/batch.h"
#include "plan/build.h"

namespace banyan {

// REQUIRES of Add: depth-first order. Moves keep the nodes' page lists valid, copies would not.
class PlanForest {
 public:
  struct Segment {
    int parent = -1;
    int length = 0;
    int own_rows = 0;  // the last keys of the segment are fed in this step
    int gap = 0;       // positions left free after the parent
    int stack = -1;
    bool continues_parent = false;  // one declared segment stored as several spans
  };

  PlanForest() = default;
  PlanForest(PlanForest&&) = default;
  PlanForest& operator=(PlanForest&&) = default;
  PlanForest(const PlanForest&) = delete;
  PlanForest& operator=(const PlanForest&) = delete;

  // Returns the node's index.
  int Add(const Segment& segment) {
    PlanNode node;
    node.parent = segment.parent;
    node.stack = segment.stack;
    node.length = segment.length;
    node.continues_parent = segment.continues_parent;
    if (segment.parent >= 0) {
      const PlanNode& parent = nodes_[segment.parent];
      node.first_position = parent.first_position + parent.length + segment.gap;
      if (segment.continues_parent) {
        node.chunk_phase = (parent.chunk_phase + parent.length / kCutKeys) % kCutsPerChunk;
      }
    }
    node.row_begin = static_cast<std::int32_t>(positions_.size());
    for (int i = segment.length - segment.own_rows; i < segment.length; ++i) {
      positions_.push_back(node.first_position + i);
    }
    node.row_end = static_cast<std::int32_t>(positions_.size());
    std::vector<std::int32_t>& pages = page_lists_.emplace_back();
    for (int i = 0; i < segment.length; i += kPageTokens) pages.push_back(next_page_++);
    std::reverse(pages.begin(), pages.end());
    node.pages = pages;
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  const std::vector<PlanNode>& nodes() const { return nodes_; }
  const std::vector<std::int32_t>& positions() const { return positions_; }
  int rows() const { return static_cast<int>(positions_.size()); }
  int pages() const { return next_page_; }

 private:
  std::vector<PlanNode> nodes_;
  std::vector<std::int32_t> positions_;  // [rows]
  std::deque<std::vector<std::int32_t>> page_lists_;
  std::int32_t next_page_ = 0;
};

struct RandomForestLimits {
  int roots = 3;
  int depth = 4;
  int children = 3;
  int own_rows = 150;  // of one node
};

// The same forest for the same seed, on every platform.
class RandomForest {
 public:
  RandomForest(std::uint32_t seed, const RandomForestLimits& limits)
      : random_(seed), limits_(limits) {
    for (int roots = 1 + Below(limits.roots); roots > 0; --roots) Grow({}, 0);
  }

  PlanForest Take() { return std::move(forest_); }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

  void Grow(PlanForest::Segment segment, int depth) {
    static constexpr int kLengths[] = {0,   1,    15,   16,   17,   127,  128,
                                       129, 1023, 1024, 1025, 2500, 4097, 5300};
    const bool whole_cuts = Chance(30);  // may then be continued
    segment.length = whole_cuts ? kCutKeys * (1 + Below(Chance(20) ? 40 : 10))
                                : kLengths[Below(static_cast<int>(std::size(kLengths)))];
    segment.own_rows = OwnRows(segment.length, depth);
    if (segment.stack < 0 && Chance(30)) segment.stack = next_stack_++;
    const int node = forest_.Add(segment);
    if (depth + 1 >= limits_.depth) return;
    for (int children = Below(limits_.children + 1); children > 0; --children) {
      PlanForest::Segment child{.parent = node, .stack = segment.stack};
      if (whole_cuts && Chance(60)) {
        child.continues_parent = true;
      } else if (Chance(20)) {
        child.gap = Below(200);
      }
      Grow(child, depth + 1);
    }
  }

  // None, one as in decoding, a few, or a chunk of prefill.
  int OwnRows(int length, int depth) {
    const int kind = Below(10) + depth;
    const int rows = kind < 4 ? 0 : kind < 8 ? 1 : kind < 10 ? 1 + Below(17) : 1 + Below(1200);
    return std::min({rows, length, limits_.own_rows});
  }

  std::mt19937 random_;
  const RandomForestLimits limits_;
  PlanForest forest_;
  int next_stack_ = 0;
};

// Every way to plan a step that must give the same bits.

struct PlanVariant {
  std::string name;
  PlanOptions options;
};

inline std::vector<PlanVariant> AllPlanVariants() {
  struct Sharing {
    const char* name;
    ItemSharing sharing;
    int share_levels;
    AttentionCosts costs = {};
  };
  AttentionCosts apart, mixed;  // of machines on which few rows, or few rows and keys, read apart
  apart[CostTerm::kFewKey] = 1e-9;
  apart[CostTerm::kManyKey] = 1e-6;
  mixed[CostTerm::kFewKey] = 2e-9;
  mixed[CostTerm::kManyUnit] = 1e-6;
  mixed[CostTerm::kManyPair] = 1e-9;
  std::vector<PlanVariant> variants;
  for (const Sharing& sharing :
       {Sharing{"per stream", ItemSharing::kPerStream, 0}, Sharing{"tree", ItemSharing::kTree, 0},
        Sharing{"tree, 1 level", ItemSharing::kTree, 1},
        Sharing{"tree, 2 levels", ItemSharing::kTree, 2},
        Sharing{"stacked", ItemSharing::kStacked, 0}, Sharing{"auto", ItemSharing::kAuto, 0},
        Sharing{"auto, apart", ItemSharing::kAuto, 0, apart},
        Sharing{"auto, mixed", ItemSharing::kAuto, 0, mixed}}) {
    for (int max_item_rows : {1, 3, 64}) {
      const auto add = [&](int min_items, const GroupJoining& joining) {
        variants.push_back({fmt::format("{}, {} rows an item, at least {} items, {} rows joined",
                                        sharing.name, max_item_rows, min_items, joining.least_rows),
                            {.sharing = sharing.sharing,
                             .share_levels = sharing.share_levels,
                             .max_item_rows = max_item_rows,
                             .min_items = min_items,
                             .costs = sharing.costs,
                             .joining = joining}});
      };
      for (int min_items : {1, 12, 1'000'000}) add(min_items, {});
      add(1, {.least_rows = 1});  // all that can be
      add(12, {.least_rows = 2, .kv_heads = 2, .workers = 5});
    }
  }
  return variants;
}

}  // namespace banyan
