// Keys and values that are in memory before anything is timed: rows of a batch at a time, which
// attend to nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/attention_plan.h"
#include "plan/batch.h"

namespace banyan {

// Rows [begin, begin + most) of the batch, or those that it has; no logits are wanted of them.
inline Batch RowsFrom(const Batch& all, int begin, int most) {
  const int end = std::min(all.rows(), begin + most);
  const auto part = [&](const std::vector<std::int32_t>& values) {
    return std::vector<std::int32_t>(values.begin() + begin, values.begin() + end);
  };
  return {part(all.tokens), part(all.positions), part(all.slots), {}, {}};
}

inline AttentionPlan PlanWithoutReading(const Batch& batch) {
  AttentionPlan plan;
  plan.merge_begin.assign(static_cast<std::size_t>(batch.rows()) + 1, 0);
  return plan;
}

}  // namespace banyan
