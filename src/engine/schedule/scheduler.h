// What the next step computes: rows of the streams that decode first, because each of them waits
// for its next token, then rows of prompts (prefill) in what is left. A prompt may be computed in
// any number of pieces; its bits do not depend on that.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "base/strong_int.h"
#include "engine/memory/stream_memory.h"
#include "engine/schedule/admission_preemption.h"
#include "plan/batch.h"

namespace banyan {

class SkeletonSchedule;  // skeleton.h

// The rows of one node in a step: its tokens [first_key, first_key + count).
struct NodeRows {
  NodeId node;
  int first_key = 0;
  int count = 0;
  bool logits = false;  // of the last row
  // A growing node may feed one token more than it has: this one, which is still being sampled.
  TokenId next_token = ChoiceToken(0);
};

struct StepDecision {
  std::vector<NodeRows> prefill;
  std::vector<StreamId> extend;  // streams that decode
  int extend_rows = 0;           // of these streams: one for every branch

  bool empty() const { return prefill.empty() && extend.empty(); }
  int rows() const;
};

// A node of a prompt and how many of its keys are in memory.
struct PromptNode {
  NodeId node;
  int tokens = 0;
  int filled = 0;
  // Its last token cannot be fed again: it is computed in a step in which its logits have room.
  bool once = false;
};

// How many rows a step may have: as many as memory was allocated for, fewer after the backend
// refused memory for a step, and more again after a number of steps without a refusal.
class StepRowLimit {
 public:
  explicit StepRowLimit(int batch_rows) : most_(batch_rows), rows_(batch_rows) {}

  int most() const { return most_; }
  int rows() const { return rows_; }  // of the next step; at least 1
  // A step of so many rows was refused memory. REQUIRES: more than one row.
  void Refused(int rows);
  void Launched();
  std::int64_t refusals() const { return refusals_; }  // so far

 private:
  const int most_;
  int rows_;
  int launched_ = 0;  // steps since the last refusal, or since the limit was last raised
  std::int64_t refusals_ = 0;
};

// Hands out the rows of one step: Begin, then Extend for every decoding stream, then Prefill for
// the others, until it is full. Keeps its memory from step to step.
//
// A prompt that is shown first gets at least one row when no stream decodes, so a step with work
// to do is never empty. A node whose parent is not complete in this step gets no rows.
class RowBudget {
 public:
  // At most so many rows, and so many of them with logits.
  void Begin(int batch_rows, int logit_rows = 1 << 30);
  // All rows of a stream, with their logits or without, or none: false when they do not fit.
  bool Extend(StreamId stream, int rows = 1, bool logits = true);
  // Prompts get at most so many of the rows that are left.
  void LimitPrompts(int rows);

  struct PrefillWish {
    bool logits = true;  // of the path's last token
    int most_rows = 1 << 30;
  };
  // `path`: root first, not empty.
  void Prefill(std::span<const PromptNode> path, const PrefillWish& wish);
  void Prefill(std::span<const PromptNode> path) { Prefill(path, PrefillWish()); }

  bool full() const { return rows_left_ == 0; }
  int rows_left() const { return rows_left_; }
  int logits_left() const { return logits_left_; }
  bool Touches(NodeId node) const { return PartOf(node) >= 0; }
  const StepDecision& decision() const { return step_; }

 private:
  int Progress(const PromptNode& node) const;
  bool Take(const PromptNode& node, int missing, int& most_rows);
  void WantLogits(const PromptNode& leaf);
  std::int32_t PartOf(NodeId node) const;
  void Add(const NodeRows& part);

  StepDecision step_;
  int rows_left_ = 0;
  int logits_left_ = 0;
  std::vector<std::int32_t> part_of_;  // by node: index in step_.prefill; -1: none
};

// Decides on steps.
//
// Invariants of a decision:
// 1. At most `most_rows` rows, but always all branches of the first stream.
// 2. The branches of a stream that decodes, and the last tokens of a panel's prompts, are in one
//    step together or not at all.
// 3. A node has rows only in a step in which its parent is complete.
class Scheduler {
 public:
  struct Limits {
    int logit_rows = 1;  // of one step
    int mixed_rows = 1;  // of a step with both decode rows and prefill rows
    bool fair = true;    // a long prompt leaves rows to others
  };
  // All arguments must outlive this object.
  Scheduler(const Limits& limits, Admission& admission, const StreamMemory& memory,
            SkeletonSchedule& skeletons)
      : limits_(limits), admission_(admission), memory_(memory), skeletons_(skeletons) {}

  // Streams that decode get pages for their rows (Admission::Grow), for which others may be
  // preempted.
  const StepDecision& Decide(int most_rows);
  const StepDecision& decision() const { return budget_.decision(); }
  // Whether the decision has prefill rows of the node.
  bool Touches(NodeId node) const { return budget_.Touches(node); }

 private:
  bool Fits(const Stream& stream) const;
  void ExtendStreams();
  void ExtendSkeleton(const SkeletonRun& run);
  bool EndsByLength(const Stream& stream) const;
  void PrefillStreams();
  void PrefillStream(const Stream& stream, int most_rows);
  void PrefillLastTokens(const Stream& panel);
  int MissingRows(const Stream& stream);
  bool AwaitPrefix();
  void ShowPath(const Stream& stream, const Branch& branch);

  const Limits limits_;
  Admission& admission_;
  const StreamMemory& memory_;
  SkeletonSchedule& skeletons_;
  // Reused from step to step.
  RowBudget budget_;
  std::vector<PromptNode> path_;
  bool path_has_logits_ = false;  // the path in path_ ends where a token is to be sampled
  std::vector<std::pair<int, StreamId>> prefilling_;  // with the rows that each is missing
};

}  // namespace banyan
