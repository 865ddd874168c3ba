// Who reads each node of a step, and which readers read it together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/build.h"

namespace banyan {

struct RowRange {
  std::int32_t begin = 0, end = 0;

  std::int32_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

struct NodeReaders {
  RowRange rows;                            // the node's own rows and those of its descendants
  std::int32_t run_begin = 0, run_end = 0;  // the same as indices into StepReaders::runs
  std::int32_t level = 0;                   // declared segments above it
};

struct StepReaders {
  std::vector<RowRange> runs;      // own rows of each node that has some, in row order
  std::vector<NodeReaders> nodes;  // [nodes]
};

// Whether a node is a later span of its parent's segment.
bool ContinuesParent(const PlanNode& node);

// Into `readers`, whose memory is used again.
// Aborts unless nodes and rows are in the order that PlanNode describes and `rows` are all theirs.
void FindReaders(std::span<const PlanNode> nodes, std::int32_t rows, StepReaders& readers);

// How each node is read: never kAuto. Into `chosen` [nodes], whose memory is used again.
// positions: [rows] as in Batch.
void ChooseSharing(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
                   const StepReaders& readers, const PlanOptions& options,
                   std::vector<ItemSharing>& chosen);

// Row range that meets the keys of each node of a stack: from the first to the last reader of any
// node of that stack. Empty for nodes without a stack.
std::vector<RowRange> FindStackRows(std::span<const PlanNode> nodes, const StepReaders& readers);

// Keys of the node that the farthest of `rows` sees: a prefix, since positions ascend.
std::int32_t VisibleKeys(const PlanNode& node, std::span<const std::int32_t> positions,
                         RowRange rows);

}  // namespace banyan
