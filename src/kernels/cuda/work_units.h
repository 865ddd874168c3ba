// Items of a step's plan as work units: of the sizes that their kernels take, in the order in which
// they are to be taken.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention.h"
#include "plan/joining.h"

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

// How wide and narrow units share the multiprocessors.
WorkerDivision DivisionOf(int multiprocessors);

// `items`: every item once, with all its rows; `positions`: of the step's rows.
HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int multiprocessors);

}  // namespace banyan::cuda
