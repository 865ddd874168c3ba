// Which rows the next step has: one for every stream that writes, and prompts in what is left.
//
// Invariants of a decision:
// 1. At most StepRowLimit::rows rows, but all branches of the first stream even so.
// 2. The branches of a stream that writes, and the last tokens of a panel's prompts, are in one
//    step together or not at all.
// 3. A node's rows come only in a step in which its parent is complete.
#pragma once

#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "engine/admission.h"
#include "engine/scheduler.h"
#include "engine/skeleton_turns.h"
#include "engine/stream_memory.h"

namespace banyan {

class StepComposer {
 public:
  struct Limits {
    int logit_rows = 1;  // of one step
    int mixed_rows = 1;  // of a step in which streams write and prompts are computed
    bool fair = true;    // a long prompt leaves room for others
  };
  // All arguments must outlive this object.
  StepComposer(const Limits& limits, Admission& admission, const StreamMemory& memory,
               SkeletonTurns& skeletons)
      : limits_(limits), admission_(admission), memory_(memory), skeletons_(skeletons) {}

  // Streams that write get room for their rows (Admission::Grow), for which others may be
  // preempted. `most_rows`: of this step.
  const StepDecision& Decide(int most_rows);
  const StepDecision& decision() const { return scheduler_.decision(); }
  // Whether the decision has rows of the node as part of a prompt.
  bool Touches(NodeId node) const { return scheduler_.Touches(node); }

 private:
  bool Fits(const Stream& stream) const;
  void ExtendStreams();
  void ExtendSkeleton(const SkeletonRun& run);
  bool EndsByLength(const Stream& stream) const;
  void DecidePrompts();
  void DecidePrompt(const Stream& stream, int most_rows);
  void DecideFirstToken(const Stream& panel);
  int MissingRows(const Stream& stream);
  bool AwaitBeginning();
  void ShowPath(const Stream& stream, const Branch& branch);

  const Limits limits_;
  Admission& admission_;
  const StreamMemory& memory_;
  SkeletonTurns& skeletons_;
  // Memory is used again.
  StepScheduler scheduler_;
  std::vector<PromptNode> path_;
  bool path_has_logits_ = false;  // the path in path_ ends where a token is to be chosen
  std::vector<std::pair<int, StreamId>> prompting_;  // with the rows that each is missing
};

}  // namespace banyan
