// A decision → the arrays of a forward pass: rows in depth-first order of the forest, so that the
// readers of every node are one range.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "kv/kv_cache.h"
#include "plan/batch.h"
#include "plan/build.h"
#include "tree/forest.h"

namespace banyan {

// Whose logits a logit row is: a prompt's last node, or a stream's tail.
struct BuiltStep {
  Batch batch;
  std::vector<PlanNode> nodes;      // depth-first
  std::vector<NodeId> logit_nodes;  // [logit rows]
};

// Keeps its memory from step to step.
class StepBuilder {
 public:
  StepBuilder(const Forest& forest, const KvCache& cache) : forest_(forest), cache_(cache) {}

  // One node's rows in the step.
  struct NodeRows {
    NodeId node;
    int first_key = 0;
    int count = 0;
    bool logits = false;
    // A growing node may feed one token more than it has: this one, still being chosen.
    TokenId next_token = ChoiceToken(0);
  };

  // Nodes that a skeleton's values see: the first below its parent in the forest, every other below
  // the node before it, wherever else in the step that may be. Rows of growing nodes stand here.
  using Chain = std::vector<NodeId>;

  // `stack_of` (may be empty) gives the stack of a node, -1 for none.
  const BuiltStep& Build(std::span<const NodeRows> rows, const std::function<int(NodeId)>& stack_of,
                         std::span<const Chain> chains = {});

  // Which row of the last step's logits is the node's; -1: none.
  std::int32_t LogitRow(NodeId node) const;

 private:
  struct Local {  // a node of the step: those with rows and all their ancestors
    NodeId id;
    std::int32_t parent = -1;
    std::int32_t first_child = -1, last_child = -1, next_sibling = -1;
    const NodeRows* rows = nullptr;
    std::int32_t logit_row = -1;
  };
  struct Visit {
    std::int32_t local, plan_parent;
  };
  std::int32_t LocalOf(NodeId node);
  std::int32_t AddLocal(NodeId node, std::int32_t parent);
  void AddChain(const Chain& chain);
  void Emit(std::int32_t local, std::int32_t plan_parent, int stack);
  void AddRows(const NodeRows& rows, Local& local);

  const Forest& forest_;
  const KvCache& cache_;
  std::vector<Local> locals_;
  std::vector<std::int32_t> local_of_;  // by node index; -1: not in the step
  std::vector<Visit> pending_;
  std::vector<std::int32_t> children_;
  bool adapted_ = false;  // a row of the step is of another variant than 0
  BuiltStep step_;
};

}  // namespace banyan
