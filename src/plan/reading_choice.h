// Whether the readers of a step's nodes read them together or apart, by predicted times.
//
// Reading together is right nearly always: keys come from memory once, and rows share their
// conversion. Reading apart can be right where a shared segment is short and its readers are few:
// on a GPU such an item is a launch of a kernel for many rows beside the one that reads the
// streams' own keys anyway, on a CPU a conversion of keys that few rows use. Bits are the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/sharing.h"

namespace banyan {

// Reading apart must save this part of a step's attention: costs are estimates, and reading
// together never has to be explained.
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

// `chosen`: [nodes] all kTree; those become kPerStream whose readers had better read apart.
void ChooseReading(const StepNodes& step, const PlanOptions& options,
                   std::vector<ItemSharing>& chosen);

}  // namespace banyan
