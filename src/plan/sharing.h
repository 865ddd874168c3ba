// Which rows read each node of a step, and whether they read it together or apart.
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

// Into `readers`, whose memory is reused. Aborts unless nodes and rows are in the order that
// PlanNode describes and `rows` are all theirs.
void FindReaders(std::span<const PlanNode> nodes, std::int32_t rows, StepReaders& readers);

// How each node is read: never kAuto. Into `chosen` [nodes], whose memory is reused.
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

// --- Together or apart, by predicted times (ItemSharing::kAuto)
//
// Reading together is nearly always faster: keys come from memory once, and rows share their
// conversion. Reading apart can be faster where a shared segment is short and has few readers: on a
// GPU such an item needs a launch of the kernel for many rows beside the one that reads the
// streams' own keys anyway, on a CPU a conversion of keys that few rows use. Bits are the same.

// Reading apart must save this part of a step's attention, because costs are estimates.
inline constexpr double kClearGain = 0.05;

struct StepNodes {
  std::span<const PlanNode> nodes;
  std::span<const std::int32_t> positions;  // [rows]
  const StepReaders& readers;
};

// Predicted seconds of one layer.
struct ReadingSeconds {
  double together = 0.0;  // every node that has several readers
  double apart = 0.0;     // every one of them
  double mixed = 0.0;     // each as it costs the workers less
};
ReadingSeconds SecondsOfStep(const StepNodes& step, const PlanOptions& options);

// Predicted seconds of the node's units one after the other: what it adds to all workers' work.
struct NodeSeconds {
  double together = 0.0, apart = 0.0;
};
NodeSeconds SecondsOfNode(const StepNodes& step, std::size_t node, const PlanOptions& options);

// `chosen`: [nodes] all kTree; becomes kPerStream where reading apart is predicted to be faster.
void ChooseReading(const StepNodes& step, const PlanOptions& options,
                   std::vector<ItemSharing>& chosen);

// Scratch memory of BuildPlan and CountPlan. The caller keeps it from step to step, so that a step
// allocates nothing once it has grown.
struct PlanScratch {
  StepReaders readers;
  std::vector<ItemSharing> sharing;      // [nodes]
  std::vector<WorkItem> items;           // the plan's, before they are split or sorted
  std::vector<std::int32_t> next_merge;  // [rows] where the row's next entry goes
  struct Length {
    std::int64_t work = 0;
    std::int32_t index = 0;
  };
  std::vector<Length> order;            // [items] longest first
  std::vector<std::int64_t> keys_seen;  // [spans] of CountPlan
};

}  // namespace banyan
