// Merge lists as a device follows them: one running partial, put aside only where the canonical
// order (attention_plan.h) asks for another one.
//
// What is merged into nothing stays as it is, so groups of one entry, and the first group of a
// stretch or stretch of a row, need no running partial of their own: most lists are merged entry by
// entry from the left.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/attention_plan.h"

namespace banyan {

inline constexpr int kMostAside = 2;  // a row's result and a stretch's, while a group is merged

struct MergeStep {
  std::int32_t partial = 0;
  // First of all, the running one, which is all of the row's parallel context, is scaled.
  std::uint8_t scales_context = 0;
  // Before the partial is merged, the running one is put aside and a new one begins.
  std::uint8_t opens = 0;
  // Afterwards, so many times, the running one is merged into the one put aside last.
  std::uint8_t closes = 0;
};

// For every entry of the plan's merge lists.
std::vector<MergeStep> MergeStepsOf(const AttentionPlan& plan);

}  // namespace banyan
