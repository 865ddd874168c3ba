// A step's rows as arrays: the batch that the model computes and the plan of its attention.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/stream.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/skeleton.h"
#include "load/model_parts.h"
#include "plan/batch.h"
#include "plan/build.h"
#include "plan/cost.h"
#include "plan/sharing.h"

namespace banyan {

struct BuiltStep {
  Batch batch;
  std::vector<PlanNode> nodes;  // depth-first
};

// Rows of nodes → a batch in depth-first order of the forest, so that the readers of every node
// are one range of rows. Keeps its memory from step to step.
class StepBuilder {
 public:
  StepBuilder(const Forest& forest, const KvCache& cache) : forest_(forest), cache_(cache) {}

  // `stack_of` (may be empty) gives the stack of a node, -1 for none.
  const BuiltStep& Build(std::span<const NodeRows> rows, const std::function<int(NodeId)>& stack_of,
                         std::span<const NodeChain> chains = {});

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
  void Clear();
  std::int32_t LocalOf(NodeId node);
  std::int32_t AddLocal(NodeId node, std::int32_t parent);
  void AddChain(const NodeChain& chain);
  void EmitDepthFirst(const std::function<int(NodeId)>& stack_of);
  void Emit(std::int32_t local, std::int32_t plan_parent, int stack);
  void AddRows(const NodeRows& rows, Local& local);
  void AddStateRun(const NodeRows& rows);

  const Forest& forest_;
  const KvCache& cache_;
  std::vector<Local> locals_;
  std::vector<std::int32_t> local_of_;  // by node index; -1: not in the step
  std::vector<Visit> pending_;
  std::vector<std::int32_t> children_;
  bool adapted_ = false;  // a row of the step is of another variant than 0
  BuiltStep step_;
};

class StepPlan {
 public:
  struct Parts {
    const RunningStreams& running;
    const StreamMemory& memory;
    SkeletonSchedule& skeletons;
  };
  // All arguments must outlive this object.
  StepPlan(const EngineOptions& options, const Model::Parts& model, const Parts& parts);

  // The methods below describe the decision that was built last.
  void Build(const StepDecision& decision);

  const Batch& batch() const { return built_->batch; }
  std::span<const PlanNode> nodes() const { return built_->nodes; }
  const AttentionPlan& attention() const { return attention_; }
  // Prefill rows first, in the order of the decision, then decode rows.
  std::span<const NodeRows> rows() const { return rows_; }
  // The rows of the logits that give the stream's next token, [branches]. False: one is missing.
  bool FindLogits(const Stream& stream, std::vector<std::int32_t>& rows) const;
  const PlanOptions& options() const { return options_; }
  // Predicted, of one layer; 0: unknown.
  double AttentionSeconds() const {
    return SecondsOf(options_.costs, CountReading(options_.costs.form, attention_));
  }
  // Whether planning chose for some shared node that each stream reads it by itself.
  bool reads_apart() const { return reads_apart_; }
  PlanStatistics Count() { return CountPlan(attention_, batch().positions, scratch_); }

 private:
  void MarkStacks();

  const Strategy strategy_;
  const PlanOptions options_;
  const RunningStreams& running_;
  const StreamMemory& memory_;
  SkeletonSchedule& skeletons_;
  // Reused from step to step.
  std::vector<NodeRows> rows_;
  StepBuilder builder_;
  const BuiltStep* built_ = nullptr;
  PlanScratch scratch_;
  AttentionPlan attention_;
  bool reads_apart_ = false;
  std::unordered_map<NodeId, int> stack_of_node_;  // stacked: of the running streams' nodes
};

}  // namespace banyan
