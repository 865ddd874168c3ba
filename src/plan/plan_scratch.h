// What BuildPlan and CountPlan keep beside the plan. It lives from step to step with whoever plans
// them, so that a step allocates nothing once it has grown.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/sharing.h"

namespace banyan {

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
