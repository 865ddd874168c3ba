// A step's rows as arrays: the batch that the model computes and the plan of its attention.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "engine/running_streams.h"
#include "engine/scheduler.h"
#include "engine/skeleton_turns.h"
#include "engine/step_builder.h"
#include "engine/stream_memory.h"
#include "load/model_parts.h"
#include "plan/build.h"
#include "plan/cost.h"
#include "plan/plan_scratch.h"

namespace banyan {

class StepPlan {
 public:
  struct Parts {
    const RunningStreams& running;
    const StreamMemory& memory;
    SkeletonTurns& skeletons;
  };
  // All arguments must outlive this object.
  StepPlan(const EngineOptions& options, const Model::Parts& model, const Parts& parts);

  // What follows is of the latest decision that was given here, until the next.
  void Build(const StepDecision& decision);

  const Batch& batch() const { return built_->batch; }
  std::span<const PlanNode> nodes() const { return built_->nodes; }
  const AttentionPlan& attention() const { return attention_; }
  // Those of prompts first, in the order of the decision, then those of streams that write.
  std::span<const StepBuilder::NodeRows> rows() const { return rows_; }
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
  SkeletonTurns& skeletons_;
  // Memory is used again.
  std::vector<StepBuilder::NodeRows> rows_;
  StepBuilder builder_;
  const BuiltStep* built_ = nullptr;
  PlanScratch scratch_;
  AttentionPlan attention_;
  bool reads_apart_ = false;
  std::unordered_map<NodeId, int> stack_of_node_;  // stacked: of the running streams' nodes
};

}  // namespace banyan
