#include "engine/plan_options.h"

#include <algorithm>

#include "kernels/built_in_costs.h"

namespace banyan {
namespace {

// Query rows of an attention item that fill the matrix kernels without spilling their caches.
constexpr int kItemQueryRows = 128;

ItemSharing SharingOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kFlat:
    case Strategy::kPaged:
      return ItemSharing::kPerStream;
    case Strategy::kStacked:
      return ItemSharing::kStacked;
    case Strategy::kTree:
      return ItemSharing::kTree;
    case Strategy::kAuto:
    case Strategy::kSequential:
    case Strategy::kNoAttention:
      return ItemSharing::kAuto;
  }
  return ItemSharing::kAuto;
}

}  // namespace

PlanOptions PlanOptionsFor(Strategy strategy, const AttentionShape& shape, const Kernels& kernels) {
  PlanOptions options;
  options.sharing = SharingOf(strategy);
  options.max_item_rows = std::max(1, kItemQueryRows * shape.kv_heads / shape.heads);
  options.min_items = (kernels.attention_tasks() + shape.kv_heads - 1) / shape.kv_heads;
  options.joining = kernels.JoiningFor(shape);
  options.costs = BuiltInCosts(kernels, shape);
  return options;
}

}  // namespace banyan
