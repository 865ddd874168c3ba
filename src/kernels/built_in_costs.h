// What attention costs where nothing was measured (plan/attention_costs.h), and how a backend
// divides items.
#pragma once

#include "kernels/kernels.h"
#include "plan/attention_costs.h"

namespace banyan {

// Of the cpu backend those of a Neoverse-N1, of cuda those of an H200, scaled by the shape. All
// zero, which decides nothing, where time does not count (reference).
AttentionCosts BuiltInCosts(const Kernels& kernels, const AttentionShape& shape);

}  // namespace banyan
