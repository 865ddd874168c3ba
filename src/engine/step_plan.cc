#include "engine/step_plan.h"

#include <algorithm>

#include "engine/plan_options.h"

namespace banyan {
namespace {

PlanOptions OptionsOf(const EngineOptions& options, const Model::Parts& model) {
  const ModelConfig& config = model.config;
  const AttentionShape shape{config.heads, config.kv_heads, config.head_dim};
  PlanOptions plan = PlanOptionsFor(options.strategy, shape, *model.kernels);
  if (model.costs) plan.costs = model.costs->costs;
  if (options.strategy == Strategy::kTree) plan.share_levels = options.share_levels;
  return plan;
}

}  // namespace

StepPlan::StepPlan(const EngineOptions& options, const Model::Parts& model, const Parts& parts)
    : strategy_(options.strategy),
      options_(OptionsOf(options, model)),
      running_(parts.running),
      memory_(parts.memory),
      skeletons_(parts.skeletons),
      builder_(memory_.forest(), memory_.cache()) {}

void StepPlan::Build(const StepDecision& decision) {
  rows_.clear();
  for (const PrefillPart& part : decision.prefill) {
    rows_.push_back({part.node, part.first_key, part.count, part.logits});
  }
  for (const StreamId id : decision.extend) {
    const Stream& stream = running_.at(id);
    for (const Branch& branch : stream.branches) {
      if (stream.skeleton) {
        rows_.push_back(skeletons_.RowOf(stream, branch));
      } else {
        const int key = memory_.Tokens(branch.tail) - 1 + stream.tokens_under_way;
        rows_.push_back({branch.tail, key, 1, true, ChoiceToken(stream.choice)});
      }
    }
  }
  const std::span<const StepBuilder::Chain> chains = skeletons_.Chains(decision.extend);
  if (strategy_ == Strategy::kStacked) {
    MarkStacks();
    const auto stack_of = [this](NodeId node) {
      const auto it = stack_of_node_.find(node);
      return it == stack_of_node_.end() ? -1 : it->second;
    };
    built_ = &builder_.Build(rows_, stack_of, chains);
  } else {
    built_ = &builder_.Build(rows_, {}, chains);
  }
  BuildPlan(built_->nodes, built_->batch.positions, options_, scratch_, attention_);
  reads_apart_ =
      options_.sharing == ItemSharing::kAuto &&
      std::ranges::find(scratch_.sharing, ItemSharing::kPerStream) != scratch_.sharing.end();
}

// A node that streams of several stacks have on their paths belongs to none.
void StepPlan::MarkStacks() {
  stack_of_node_.clear();
  for (const StreamId id : running_.order()) {
    const Stream& stream = running_.at(id);
    const int stack = stream.declared().stack;
    for (const Branch& branch : stream.branches) {
      std::vector<NodeId> nodes = memory_.forest().Path(branch.tail);
      nodes.push_back(branch.leaf);
      for (const NodeId node : nodes) {
        const auto [it, added] = stack_of_node_.try_emplace(node, stack);
        if (!added && it->second != stack) it->second = -1;
      }
    }
  }
}

// Of each branch the tail's row, or the row that ends its prompt, which several streams may share.
bool StepPlan::FindLogits(const Stream& stream, std::vector<std::int32_t>& rows) const {
  const bool from_tail = stream.decodes() || memory_.HasWritten(stream);
  rows.clear();
  for (const Branch& branch : stream.branches) {
    rows.push_back(builder_.LogitRow(from_tail ? branch.tail : branch.leaf));
    if (rows.back() < 0) return false;
  }
  return true;
}

}  // namespace banyan
