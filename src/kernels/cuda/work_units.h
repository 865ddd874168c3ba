// Items of a step's plan as work units: of the sizes that their kernels take, in the order in which
// they are to be taken.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention.h"

namespace banyan::cuda {

// What the units of a step depend on beside its items.
struct UnitSplit {
  int ratio = 0;  // query heads per KV head
  int kv_heads = 0;
  UnitForm form = UnitForm::kBlocks;
  auto operator<=>(const UnitSplit&) const = default;
};

struct HostUnits {
  std::vector<WorkUnit> many_rows, few_rows;  // see UnitLists
  UnitCounts counts;
};

// `items`: every item once, with all its rows; `positions`: of the step's rows. `wide_blocks`: the
// blocks that take wide units, where there are narrow ones as well
// (AttentionPlan::many_row_workers).
HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int wide_blocks);

}  // namespace banyan::cuda
