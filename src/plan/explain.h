// A plan as text for people: `--explain`, documentation, failing tests. Nothing parses it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plan/build.h"
#include "plan/cost.h"

namespace banyan {

// One line per node, indented by depth, and one of totals; of large steps the first nodes only.
// REQUIRES: plan = BuildPlan(nodes, positions, options).
[[nodiscard]] std::string ExplainPlan(const AttentionPlan& plan, std::span<const PlanNode> nodes,
                                      std::span<const std::int32_t> positions,
                                      const PlanOptions& options);

// The predicted cost of a step with this plan against the least that any plan of it needs, one
// line.
[[nodiscard]] std::string ExplainCost(const PlanStatistics& plan, double logit_rows,
                                      const ModelSizes& model, const MachineRates& machine);

}  // namespace banyan
