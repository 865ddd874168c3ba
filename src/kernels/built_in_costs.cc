#include "kernels/built_in_costs.h"

#include <algorithm>

#include "base/machine_limits.h"
#include "kernels/units/work_units.h"

namespace banyan {
namespace {

// What is read and converted grows with the size of heads, what is computed with the query heads of
// a KV head too.
AttentionCosts HostCosts(const Kernels& kernels, const AttentionShape& shape) {
  constexpr int kTasksPerThread = 4;  // what attention_tasks() asks for
  AttentionCosts costs;
  ReadingForm& form = costs.form;
  form.ratio = shape.heads / shape.kv_heads;
  form.kv_heads = shape.kv_heads;
  form.workers =
      std::clamp(kernels.attention_tasks() / kTasksPerThread, 1, std::max(1, UsableProcessors()));
  const double size = shape.head_dim, sizes = size * form.ratio;
  costs[CostTerm::kStep] = 1.8e-6;
  costs[CostTerm::kFewUnit] = 0.25e-6;
  costs[CostTerm::kFewKey] = 0.25e-9 * size + 0.1e-9 * sizes;
  costs[CostTerm::kManyUnit] = 0.25e-6;
  costs[CostTerm::kManyKey] = 0.35e-9 * size;
  costs[CostTerm::kManyPair] = 0.085e-9 * sizes;
  costs[CostTerm::kPartial] = 0.8e-9 * size * shape.heads;
  return costs;
}

AttentionCosts DeviceCosts(const Kernels& kernels, const AttentionShape& shape) {
  AttentionCosts costs;
  ReadingForm& form = costs.form;
  form.ratio = shape.heads / shape.kv_heads;
  form.kv_heads = shape.kv_heads;
  form.workers = kernels.attention_tasks();
  form.launches = true;
  if (const int wide = kernels.JoiningFor(shape).least_rows; wide > 0) {
    form.least_many_rows = wide;
    form.few_tile = kNarrowRows;
    form.many_tile = kWideRows;
    form.few_per_worker = 2;
  } else {  // units of one kind
    form.least_many_rows = 1;
    form.many_tile = kBlockRows;
  }
  // Fitted to 872 times of an H200 (`bench attention`; 32 / 8, 32 / 32 and 16 / 8 heads of 128, 9 /
  // 3 of 64): half of the predictions are within 5 %, nine of ten within 20 %.
  const double size = shape.head_dim / 128.0;
  costs[CostTerm::kStep] = 9.7e-6;
  costs[CostTerm::kManyStart] = 0.1e-6;
  costs[CostTerm::kQueue] = 3.8e-6;
  costs[CostTerm::kList] = 0.315e-6;
  costs[CostTerm::kFewUnit] = 0.5e-6;
  costs[CostTerm::kFewKey] = 12e-9 + 8e-9 * size;
  costs[CostTerm::kManyUnit] = 1.2e-6;
  costs[CostTerm::kManyKey] = 2.4e-9 + 11.5e-9 * size;
  costs[CostTerm::kPartial] = 1.5e-6 * size * shape.heads / 32.0;
  return costs;
}

}  // namespace

AttentionCosts BuiltInCosts(const Kernels& kernels, const AttentionShape& shape) {
  if (kernels.asynchronous()) return DeviceCosts(kernels, shape);
  if (kernels.name().starts_with("cpu")) return HostCosts(kernels, shape);
  return {};
}

}  // namespace banyan
