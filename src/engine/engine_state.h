// The engine's working parts. The loop is Engine::Step: admit → decide → plan → launch → take.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "engine/launched_step.h"
#include "engine/limit.h"
#include "engine/memory.h"
#include "engine/model_parts.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/stream.h"
#include "engine/timer.h"
#include "kv/kv_cache.h"
#include "plan/build.h"
#include "tree/forest.h"

namespace banyan {

struct Engine::State {
  State(std::shared_ptr<Model> model, const EngineOptions& options);

  // --- submit.cc: requests → waiting streams
  void Submit(PromptSegment request);

  // --- admit.cc: waiting streams → pinned paths with room for their answers
  void Admit();
  bool TryAdmit(Stream& stream);
  void Fail(Stream& stream, const std::string& why);

  // --- step.cc: the loop
  bool Step();
  bool LaunchNext();
  void TakeOldest();

  // --- launch.cc: decision (in scheduler_) → arrays (in built_ and plan_) → a launched step
  void Decide();
  bool Decodes(const Stream& stream) const;
  bool EndsByLength(const Stream& stream, int more) const;
  void PlanStep();
  void MarkStacks();
  PlanOptions OptionsForPlan() const;
  void FillTails();
  void Launch();
  bool MustTakeAtOnce(const Stream& stream) const;
  SamplingRow RequestFor(const Stream& stream, std::int32_t row) const;

  // --- take.cc: a launched step's tokens and what follows from them
  void Take(LaunchedStep& step);
  void ForgetLaunched();
  void TakeToken(Stream& stream, const TokenChoice& choice);
  void FinishAnswer(Stream& stream, FinishReason reason);
  void Retire(Stream& stream);

  // --- explain.cc
  std::string Explain();

  Stream& at(StreamId id) { return *streams_[id.index()]; }
  const Stream& at(StreamId id) const { return *streams_[id.index()]; }

  std::shared_ptr<Model> model_;
  EngineOptions options_;
  Kernels& kernels_;
  const ModelConfig& config_;
  EngineMemory memory_;
  const int batch_rows_;
  const int max_streams_;  // running at once
  // Steps that are launched before the tokens of the latest are known: 0 or 1.
  const size_t steps_ahead_;
  Forest forest_;
  KvCache cache_;
  // The step being prepared; memory is used again.
  StepScheduler scheduler_;
  std::vector<PromptNode> path_;
  std::vector<StepBuilder::NodeRows> node_rows_;
  std::vector<PageCopy> page_copies_;
  StepBuilder builder_;
  const BuiltStep* built_ = nullptr;
  AttentionPlan plan_;
  std::vector<SamplingRow> requests_;

  std::deque<LaunchedStep> launched_;  // oldest first
  Timer::Clock::time_point step_began_;
  int step_rows_;  // at most batch_rows_: less after memory was refused
  int steps_since_refusal_ = 0;

  std::deque<std::unique_ptr<Stream>> waiting_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by id; null: free
  std::vector<StreamId> free_ids_;
  std::vector<StreamId> running_;  // in order of admission
  bool no_room_ = false;           // the next waiting stream did not fit; try again when one ends
  std::unordered_map<NodeId, int> stack_of_node_;  // stacked: of the running streams' nodes
  std::vector<Answer> finished_;
  Receipt receipt_;
  WorkLimit limit_;

  // Numbering of stacks at submission.
  int stack_ = 0;
  int stack_contexts_ = 0;
  int context_questions_ = 0;
  const void* last_context_ = nullptr;
};

}  // namespace banyan
