#include "engine/step/step_plan.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "engine/request/strategy.h"

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

// Finds or adds the node, its ancestors first, so that parents come before children in locals_.
std::int32_t StepBuilder::LocalOf(NodeId node) {
  if (!node.valid()) return -1;
  if (local_of_[node.index()] >= 0) return local_of_[node.index()];
  const std::int32_t local = AddLocal(node, LocalOf(forest_.at(node).parent));
  local_of_[node.index()] = local;
  return local;
}

void StepBuilder::AddChain(const NodeChain& chain) {
  std::int32_t above = LocalOf(forest_.at(chain.front()).parent);
  for (const NodeId node : chain) {
    above = AddLocal(node, above);
    if (forest_.at(node).growing) local_of_[node.index()] = above;
  }
}

std::int32_t StepBuilder::AddLocal(NodeId node, std::int32_t parent) {
  const auto index = static_cast<std::int32_t>(locals_.size());
  locals_.push_back({});
  locals_.back().id = node;
  locals_.back().parent = parent;
  if (parent >= 0) {
    Local& above = locals_[static_cast<size_t>(parent)];
    if (above.last_child < 0) {
      above.first_child = index;
    } else {
      locals_[static_cast<size_t>(above.last_child)].next_sibling = index;
    }
    above.last_child = index;
  }
  return index;
}

const BuiltStep& StepBuilder::Build(std::span<const NodeRows> rows,
                                    const std::function<int(NodeId)>& stack_of,
                                    std::span<const NodeChain> chains) {
  Clear();
  for (const NodeChain& chain : chains) AddChain(chain);
  for (const NodeRows& node : rows) {
    const std::int32_t local = LocalOf(node.node);
    BANYAN_CHECK(locals_[static_cast<size_t>(local)].rows == nullptr);
    locals_[static_cast<size_t>(local)].rows = &node;
  }
  EmitDepthFirst(stack_of);
  if (!adapted_) step_.batch.variants.clear();
  return step_;
}

void StepBuilder::Clear() {
  for (const Local& local : locals_) local_of_[local.id.index()] = -1;
  locals_.clear();
  local_of_.resize(std::max(local_of_.size(), forest_.capacity()), -1);
  step_.batch.tokens.clear();
  step_.batch.positions.clear();
  step_.batch.slots.clear();
  step_.batch.logit_rows.clear();
  step_.batch.variants.clear();
  step_.batch.states.clear();
  adapted_ = false;
  step_.nodes.clear();
}

// Without recursion: a forest may be as deep as it has segments.
void StepBuilder::EmitDepthFirst(const std::function<int(NodeId)>& stack_of) {
  pending_.clear();
  for (auto i = static_cast<std::int32_t>(locals_.size()) - 1; i >= 0; --i) {
    if (locals_[static_cast<size_t>(i)].parent < 0) pending_.push_back({i, -1});
  }
  // Rows of one variant of the model stand together.
  const auto variant_of = [this](const Visit& visit) {
    return forest_.at(locals_[static_cast<size_t>(visit.local)].id).variant;
  };
  if (!std::ranges::is_sorted(pending_, std::greater{}, variant_of)) {
    std::ranges::stable_sort(pending_, std::greater{}, variant_of);
  }
  while (!pending_.empty()) {
    const Visit visit = pending_.back();
    pending_.pop_back();
    const Local& local = locals_[static_cast<size_t>(visit.local)];
    Emit(visit.local, visit.plan_parent, stack_of ? stack_of(local.id) : -1);
    const auto self = static_cast<std::int32_t>(step_.nodes.size()) - 1;
    children_.clear();
    for (std::int32_t c = local.first_child; c >= 0;
         c = locals_[static_cast<size_t>(c)].next_sibling) {
      children_.push_back(c);
    }
    for (auto it = children_.rbegin(); it != children_.rend(); ++it)
      pending_.push_back({*it, self});
  }
}

void StepBuilder::Emit(std::int32_t index, std::int32_t plan_parent, int stack) {
  Local& local = locals_[static_cast<size_t>(index)];
  const Node& node = forest_.at(local.id);
  PlanNode plan;
  plan.parent = plan_parent;
  plan.stack = stack;
  plan.first_position = node.first_position;
  plan.chunk_phase = node.segment_offset / kCutKeys % kCutsPerChunk;
  plan.continues_parent = node.segment_offset > 0;
  plan.length = cache_.filled(local.id);
  plan.row_begin = step_.batch.rows();
  if (local.rows != nullptr) {
    plan.length = std::max(plan.length, local.rows->first_key + local.rows->count);
    AddRows(*local.rows, local);
  }
  plan.row_end = step_.batch.rows();
  plan.pages = cache_.Pages(local.id, plan.length);
  step_.nodes.push_back(plan);
}

void StepBuilder::AddRows(const NodeRows& rows, Local& local) {
  const Node& node = forest_.at(rows.node);
  const auto known = static_cast<int>(node.tokens.size());
  adapted_ = adapted_ || node.variant != 0;
  Batch& batch = step_.batch;
  for (int key = rows.first_key; key < rows.first_key + rows.count; ++key) {
    BANYAN_CHECK(key < known || (key == known && node.growing));
    batch.tokens.push_back(key < known ? node.tokens[static_cast<size_t>(key)] : rows.next_token);
    batch.positions.push_back(node.first_position + key);
    batch.slots.push_back(cache_.Slot(rows.node, key));
    batch.variants.push_back(node.variant);
  }
  if (cache_.slots().any()) AddStateRun(rows);
  if (rows.logits) {
    local.logit_row = static_cast<std::int32_t>(batch.logit_rows.size());
    batch.logit_rows.push_back(batch.rows() - 1);
  }
}

// The rows of a node that were added last go on from the node's state or, from its first token on,
// from that of the node above it. Nodes with one slot (Branch::before_leaf) are one run.
void StepBuilder::AddStateRun(const NodeRows& rows) {
  const std::int32_t end = step_.batch.rows();
  StateRun run{end - rows.count, end, -1, cache_.slots().Of(rows.node)};
  const Node& node = forest_.at(rows.node);
  const NodeId parent = node.parent;
  if (rows.first_key > 0) {
    run.from = run.to;
  } else if (parent.valid()) {
    run.from = cache_.slots().Of(parent);
  }
  // What the slot has now is the state before the first row. (Tails get theirs at the launch.)
  BANYAN_CHECK(run.from != run.to || node.growing || rows.first_key == cache_.filled(rows.node));
  std::vector<StateRun>& runs = step_.batch.states;
  if (run.from == run.to && !runs.empty() && runs.back().to == run.to) {
    runs.back().row_end = end;  // the rows before, in the same slot
  } else {
    runs.push_back(run);
  }
}

std::int32_t StepBuilder::LogitRow(NodeId node) const {
  if (node.index() >= local_of_.size() || local_of_[node.index()] < 0) return -1;
  return locals_[static_cast<size_t>(local_of_[node.index()])].logit_row;
}

StepPlan::StepPlan(const EngineOptions& options, const Model::Parts& model, const Parts& parts)
    : strategy_(options.strategy),
      options_(OptionsOf(options, model)),
      running_(parts.running),
      memory_(parts.memory),
      skeletons_(parts.skeletons),
      builder_(memory_.forest(), memory_.cache()) {}

void StepPlan::Build(const StepDecision& decision) {
  rows_.clear();
  for (const NodeRows& part : decision.prefill) {
    rows_.push_back(part);
  }
  for (const StreamId id : decision.extend) {
    const Stream& stream = running_.at(id);
    for (const Branch& branch : stream.branches) {
      if (stream.skeleton) {
        rows_.push_back(skeletons_.RowOf(stream, branch));
      } else {
        const int key = memory_.Tokens(branch.tail) - 1 + stream.tokens_in_flight;
        rows_.push_back({branch.tail, key, 1, true, ChoiceToken(stream.choice)});
      }
    }
  }
  const std::span<const NodeChain> chains = skeletons_.Chains(decision.extend);
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
  const bool from_tail = stream.decodes() || memory_.Written(stream) > 0;
  rows.clear();
  for (const Branch& branch : stream.branches) {
    rows.push_back(builder_.LogitRow(from_tail ? branch.tail : branch.leaf));
    if (rows.back() < 0) return false;
  }
  return true;
}

}  // namespace banyan
