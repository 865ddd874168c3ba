// How steps are planned for a backend: what the engine and its benchmarks have in common.
#pragma once

#include "banyan/engine.h"
#include "kernels/kernels.h"
#include "plan/build.h"

namespace banyan {

// With the costs that are built in.
PlanOptions PlanOptionsFor(Strategy strategy, const AttentionShape& shape, const Kernels& kernels);

}  // namespace banyan
