// The engine's working parts. The loop is Engine::Step: admit → decide → build → forward → commit.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "engine/limit.h"
#include "engine/model_parts.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/stream.h"
#include "kv/kv_cache.h"
#include "model/forward.h"
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

  // --- step.cc: one forward pass and what follows from it
  bool Step();
  SchedulerView View() const;
  const BuiltStep& BuildStep(const StepDecision& decision);
  PlanOptions OptionsForPlan() const;
  void Commit(const StepDecision& decision, const BuiltStep& built, const Tensor& logits);
  SamplingRow RequestFor(const Stream& stream, std::int32_t row) const;
  void TakeToken(Stream& stream, const TokenChoice& choice);
  void FinishAnswer(Stream& stream, FinishReason reason);
  void Retire(Stream& stream);
  void MarkStacks();

  // --- explain.cc
  std::string Explain();

  Stream& at(StreamId id) { return *streams_[id.index()]; }
  const Stream& at(StreamId id) const { return *streams_[id.index()]; }

  std::shared_ptr<Model> model_;
  EngineOptions options_;
  Kernels& kernels_;
  const ModelConfig& config_;
  const int batch_rows_;
  const int max_streams_;  // running at once
  Forest forest_;
  KvCache cache_;
  std::shared_ptr<KvMemory> kv_;
  ForwardPass forward_;
  StepBuilder builder_;
  AttentionPlan plan_;
  std::vector<StepBuilder::NodeRows> node_rows_;

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
