// The engine's working parts, for one thread at a time. The loop is Step: admit → decide → plan →
// launch → take. What comes from other threads and goes to them is service.h.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "base/quantiles.h"
#include "base/timer.h"
#include "engine/launched_step.h"
#include "engine/limit.h"
#include "engine/memory.h"
#include "engine/request_tree.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/stored_kv.h"
#include "engine/stream.h"
#include "engine/waiting_line.h"
#include "kv/kv_cache.h"
#include "load/model_parts.h"
#include "plan/build.h"
#include "plan/plan_scratch.h"
#include "tree/forest.h"

namespace banyan {

class EngineCore {
 public:
  EngineCore(std::shared_ptr<Model> model, const EngineOptions& options);

  // --- requests.cc: what comes in from outside
  void Accept(std::shared_ptr<RequestTree> request);
  // Without a tag: all answers of the request.
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  // Ends all answers that have not ended: cancelled, or with an error.
  void EndAll(FinishReason reason, const std::string& why);

  // --- step.cc: the loop
  bool Step();

  // What happened since the last call; null queues are the engine's own.
  using Delivery = std::pair<std::shared_ptr<AnswerQueue>, AnswerEvent>;
  std::vector<Delivery> TakeDeliveries() { return std::exchange(deliveries_, {}); }

  std::int64_t waiting() const { return line_.streams(); }
  std::int64_t waiting_tokens() const { return line_.tokens(); }
  int running() const { return static_cast<int>(running_.size()) - ended_values_; }
  int most_branches() const { return memory_.logit_rows; }  // of one stream
  bool idle() const { return line_.empty() && running_.empty() && launched_.empty(); }
  int max_streams() const { return max_streams_; }
  Receipt MakeReceipt();
  std::string Explain();                                                       // explain.cc
  std::vector<ForestNode> Picture(std::span<const RequestId> requests) const;  // picture.cc

 private:
  // --- requests.cc
  void NumberStacks(RequestTree& request);
  void CancelTagged(const std::shared_ptr<RequestTree>& request, std::uint64_t tag);
  void EndStream(const std::shared_ptr<RequestTree>& request, std::int32_t index,
                 FinishReason reason, const std::string& why);

  // --- skeleton.cc: values that see one another
  int Fed(const Stream& stream) const;
  StepBuilder::NodeRows ValueRow(const Stream& stream, const Branch& branch) const;
  void ExtendSkeleton(const std::shared_ptr<SkeletonRun>& run);
  void DecideFirstTokens(const SkeletonRun& run);
  StepBuilder::Chain ChainOf(const SkeletonRun& run, StreamId last, size_t branch_index) const;
  void CollectChains();
  void RetireValue(Stream& stream);
  void PreemptSkeleton(const std::shared_ptr<SkeletonRun>& run);

  // --- admit.cc: waiting streams → pinned paths with room to begin
  void Admit();
  bool PlaceForNext() const;
  std::vector<std::unique_ptr<Stream>> TakeNext();
  void Return(std::vector<std::unique_ptr<Stream>> streams);
  bool TryAdmitAll(std::vector<std::unique_ptr<Stream>>& streams);
  bool StackFits(const Stream& next) const;
  void Begin(std::unique_ptr<Stream> stream);

  // --- find_room.cc: what a stream that is let in gets
  bool TryAdmit(Stream& stream, std::int64_t spare, bool least_room);
  void FindPaths(Stream& stream);
  NodeId FindPath(const Stream& stream, std::int32_t leaf_segment);
  std::vector<NodeId> PromptNodes(const Stream& stream) const;
  int TailKeys(const Stream& stream, NodeId leaf) const;
  int FirstTailKeys(const Stream& stream, const Branch& branch, std::int64_t most_pages) const;

  // --- grow.cc: memory on demand
  bool GrowTail(Stream& stream);
  void EndForMemory(Stream& stream);
  void Preempt(Stream& stream);
  std::unique_ptr<Stream> PutAside(Stream& stream);
  void StopWriting(Stream& stream);
  void LetGo(Stream& stream);

  // --- step.cc
  bool LaunchNext();
  void TakeOldest();

  // --- decide.cc: running streams → the step's rows (in scheduler_)
  void Decide();
  void DecidePrompts();
  void DecidePrompt(const Stream& stream, int most_rows);
  void DecideFirstToken(const Stream& panel);
  int MissingRows(const Stream& stream);
  void ShowPath(const Stream& stream, const Branch& branch);
  bool Decodes(const Stream& stream) const;
  bool EndsByLength(const Stream& stream, int more) const;
  bool HasWritten(const Stream& stream) const;

  // --- launch.cc: rows → arrays (in built_ and plan_) → a launched step
  void PlanStep();
  void MarkStacks();
  PlanOptions OptionsForPlan() const;
  void FillTails();
  void Constrain(Stream& stream);
  void Launch();
  bool AddChoice(Stream& stream, LaunchedStep& step);
  NodeId LogitNode(const Stream& stream, const Branch& branch) const;
  bool WantsLogits(const Stream& stream) const;
  bool MustTakeAtOnce(const Stream& stream) const;
  SamplingRow RequestFor(const Stream& stream, std::int32_t row) const;
  PanelRow PanelFor(const Stream& stream, std::int32_t prior);
  bool HasPrior(const Stream& stream) const;
  int EndPosition(const Stream& stream) const;

  // --- take.cc: a launched step's tokens and what follows from them
  void Take(LaunchedStep& step);
  void ForgetLaunched();
  void ForgetUnderWay(Stream& stream);
  void SavePrompt(const Stream& stream);
  void TakeToken(Stream& stream, const TokenChoice& choice);
  void KeepMeasured(Stream& stream, const TokenChoice& choice);
  bool AddText(Stream& stream, bool stop_token);
  void FinishAnswer(Stream& stream, FinishReason reason, const std::string& why);
  void Retire(Stream& stream);
  void ForgetEnded();

  // --- deliver.cc: events
  void DeliverToken(Stream& stream);
  void DeliverEnd(Stream& stream, FinishReason reason, const std::string& why);
  // Of every answer that the stream has not ended; it is over then.
  void DeliverEnds(Stream& stream, FinishReason reason, const std::string& why);

  Stream& at(StreamId id) { return *streams_[id.index()]; }
  const Stream& at(StreamId id) const { return *streams_[id.index()]; }
  bool Alive(StreamId id) const { return streams_[id.index()] != nullptr; }

  std::shared_ptr<Model> model_;
  EngineOptions options_;
  Kernels& kernels_;
  const ModelConfig& config_;
  EngineMemory memory_;
  const int batch_rows_;
  const int max_streams_;  // branches running at once, unless one stream alone has more
  const int mixed_rows_;   // of a step in which streams write and prompts are computed
  const bool fair_;        // a long prompt leaves room for others
  // Steps that are launched before the tokens of the latest are known: 0 or 1.
  const size_t steps_ahead_;
  Forest forest_;
  KvCache cache_;
  std::unique_ptr<StoredKv> stored_;  // null: no KV store
  // The step being prepared; memory is used again.
  StepScheduler scheduler_;
  std::vector<PromptNode> path_;
  bool path_has_logits_ = false;  // the path in path_ ends where a token is to be chosen
  std::vector<std::pair<int, StreamId>> prompting_;  // with the rows that each is missing
  std::vector<StepBuilder::NodeRows> node_rows_;
  std::vector<StepBuilder::Chain> chains_;
  std::vector<PageCopy> page_copies_;
  StepBuilder builder_;
  const BuiltStep* built_ = nullptr;
  PlanScratch plan_scratch_;
  AttentionPlan plan_;
  std::vector<SamplingRow> requested_;
  std::vector<PanelRow> panels_;                // whose experts are in the next
  std::deque<std::vector<ExpertRow>> experts_;  // [panels_]

  std::vector<LaunchedStep> launched_;  // oldest first
  std::vector<LaunchedStep> taken_;     // whose memory later ones use again
  Timer::Clock::time_point step_began_;
  int step_rows_;  // at most batch_rows_: less after memory was refused
  int steps_since_refusal_ = 0;

  std::unordered_map<RequestId, std::shared_ptr<RequestTree>> requests_;  // not over
  WaitingLine line_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by id; null: free
  std::vector<StreamId> free_ids_;
  std::vector<StreamId> running_;  // by rank; ends may be among them until ForgetEnded
  int running_branches_ = 0;       // of them
  int ended_values_ = 0;           // of them, those that only keep what others see
  int ended_branches_ = 0;         // of those
  bool no_room_ = false;           // the next in line did not fit; try again when a stream ends
  bool nobody_else_ = false;       // what runs may need all memory there is
  std::unordered_map<NodeId, int> stack_of_node_;  // stacked: of the running streams' nodes
  std::vector<Delivery> deliveries_;
  Receipt receipt_;
  Quantiles first_token_, next_token_;  // seconds
  WorkLimit limit_;

  // Numbering of stacks at submission.
  int stack_ = 0;
  int stack_contexts_ = 0;
  int context_questions_ = 0;
  std::pair<RequestId, std::int32_t> last_context_{};  // request, segment
};

}  // namespace banyan
