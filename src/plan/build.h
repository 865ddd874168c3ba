// A step's nodes and rows → AttentionPlan. Integer work only: no memory, no model, no kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/attention_plan.h"
#include "plan/cost.h"
#include "plan/joining.h"

namespace banyan {

struct PlanScratch;  // sharing.h

// A node that some row of the step has on its path. Nodes are listed depth-first, parents before
// children; rows are numbered in the same order, a node's own rows before those of its descendants,
// so the readers of a node (its own rows and all below) are one contiguous range.
struct PlanNode {
  std::int32_t parent = -1;                 // index in the list; -1: a root
  std::int32_t row_begin = 0, row_end = 0;  // the node's own rows in this step, maybe none
  std::int32_t stack = -1;          // stacked execution: which stack the node belongs to; -1: none
  std::int32_t length = 0;          // keys, those of this step included
  std::int32_t first_position = 0;  // of key 0
  std::int32_t chunk_phase = 0;     // see KvSpan
  std::span<const std::int32_t> pages = {};  // ceil(length / kPageTokens)
  // The node is a later span of its parent's segment, and so no deeper level. The
  // parent then ends at a cut. A chunk_phase other than 0 says the same.
  bool continues_parent = false;
};

enum class ItemSharing {
  kPerStream,  // flat and paged: every run of own rows reads its path by itself
  kTree,       // all readers of a node read it together
  kStacked,    // all rows of a stack meet all keys of the stack, under the mask
  kAuto,       // per node, kPerStream or kTree: kTree unless the other is clearly faster
};

struct PlanOptions {
  ItemSharing sharing = ItemSharing::kTree;
  int share_levels = 0;    // kTree: only nodes of the first N levels are shared; 0 = all
  int max_item_rows = 64;  // an item's rows are split into blocks of at most this many
  // Items for this many workers: all groups are split into cuts when there would be fewer items,
  // else those groups that alone are more than 1.5/min_items of the work. Not where the costs, or
  // for items of many rows the times of `joining`, predict that cuts take longer. The bits stay the
  // same.
  int min_items = 1;
  AttentionCosts costs = {};     // kAuto: what decides; all zero: kTree
  GroupJoining joining = {};     // items of several groups, where they are faster
  ParallelContext context = {};  // of the nodes, which are those of the plan's spans
};

// Span i of the plan is node i. Keys that no row of an item sees are left out of it, and so are
// rows before the first that sees one.
// REQUIRES: the order that PlanNode describes; positions of a node's own rows ascending.
// positions: [rows] as in Batch.
AttentionPlan BuildPlan(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
                        const PlanOptions& options);

// The same into `plan`; reuses the memory of `plan` and `scratch`.
void BuildPlan(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
               const PlanOptions& options, PlanScratch& scratch, AttentionPlan& plan);

// Aborts unless every (row, visible key) pair is covered exactly once, every row's merges are in
// canonical order, every partial is used once, items are longest first and every index is in
// range. Time is linear in partials and merges. BuildPlan calls it in debug builds.
void CheckPlan(const AttentionPlan& plan, std::span<const PlanNode> nodes,
               std::span<const std::int32_t> positions);

}  // namespace banyan
