#include "plan/cost.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "plan/sharing.h"

namespace banyan {

StepCost& StepCost::operator+=(const StepCost& other) {
  matrix_flops += other.matrix_flops;
  attention_flops += other.attention_flops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

StepCost CostOf(const ModelSizes& model, const StepWork& work) {
  StepCost cost;
  cost.matrix_flops =
      2.0 * (model.row_parameters * work.rows + model.logit_parameters * work.logit_rows);
  cost.attention_flops = 4.0 * model.heads * model.head_dim * model.layers * work.pairs;
  cost.weight_bytes = model.weight_bytes;
  cost.kv_bytes = model.kv_bytes_per_key * work.keys;
  return cost;
}

double LimitSeconds(const StepCost& phase, const MachineRates& machine) {
  BANYAN_CHECK(machine.flops_per_second > 0 && machine.bytes_per_second > 0);
  return std::max(phase.flops() / machine.flops_per_second,
                  phase.bytes() / machine.bytes_per_second);
}

PlanStatistics CountPlan(const AttentionPlan& plan, std::span<const std::int32_t> positions) {
  PlanScratch scratch;
  return CountPlan(plan, positions, scratch);
}

PlanStatistics CountPlan(const AttentionPlan& plan, std::span<const std::int32_t> positions,
                         PlanScratch& scratch) {
  PlanStatistics count;
  count.rows = static_cast<std::int64_t>(positions.size());
  count.items = static_cast<std::int64_t>(plan.items.size());
  count.partials = plan.partials;
  std::vector<std::int64_t>& keys_seen = scratch.keys_seen;  // a row sees a prefix of a span
  keys_seen.assign(plan.spans.size(), 0);
  for (const WorkItem& item : plan.items) {
    const KvSpan& span = plan.spans[item.span];
    const std::int64_t keys = item.key_end - item.key_begin;
    const std::int64_t pairs = keys * (item.row_end - item.row_begin);
    count.pairs_computed += pairs;
    count.keys_read += keys;
    count.longest_item = std::max(count.longest_item, pairs);
    for (std::int32_t row = item.reader_begin; row < item.reader_end; ++row) {
      const std::int64_t seen = std::clamp<std::int64_t>(
          std::int64_t{positions[row]} - span.first_position + 1 - item.key_begin, 0, keys);
      count.pairs_visible += seen;
      if (seen > 0) {
        keys_seen[item.span] = std::max(keys_seen[item.span], item.key_begin + seen);
      }
    }
  }
  for (std::int64_t keys : keys_seen) count.keys_unique += keys;
  return count;
}

StepWork WorkOf(const PlanStatistics& plan, double logit_rows) {
  return {.rows = static_cast<double>(plan.rows),
          .logit_rows = logit_rows,
          .pairs = static_cast<double>(plan.pairs_computed),
          .keys = static_cast<double>(plan.keys_read)};
}

StepWork LeastWorkOf(const PlanStatistics& plan, double logit_rows) {
  return {.rows = static_cast<double>(plan.rows),
          .logit_rows = logit_rows,
          .pairs = static_cast<double>(plan.pairs_visible),
          .keys = static_cast<double>(plan.keys_unique)};
}

}  // namespace banyan
