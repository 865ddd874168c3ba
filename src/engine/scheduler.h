// What the next step computes: a pure decision from what is in memory and what is asked for. Decode
// rows come first, because every running stream waits for them; prompts fill the rest, or what of
// it they may have. A prompt may be computed in any number of pieces: bits do not depend on it.
#pragma once

#include <span>
#include <vector>

#include "base/strong_int.h"

namespace banyan {

// A node of a prompt and how many of its keys are in memory.
struct PromptNode {
  NodeId node;
  int tokens = 0;
  int filled = 0;
};

// A stream that waits for its prompt's last logits.
struct PrefillView {
  StreamId stream;
  std::vector<PromptNode> path;  // root first, not empty; the last one's logits are wanted
};

struct SchedulerView {
  std::vector<StreamId> decoding;       // each wants one row
  std::vector<PrefillView> prefilling;  // in order of admission
};

// Rows for tokens [first_key, first_key + count) of a node.
struct PrefillPart {
  NodeId node;
  int first_key = 0;
  int count = 0;
  bool logits = false;  // of the last row
};

struct StepDecision {
  std::vector<PrefillPart> prefill;
  std::vector<StreamId> extend;
  int extend_rows = 0;  // of these streams: one for every branch

  bool empty() const { return prefill.empty() && extend.empty(); }
  int rows() const;
};

// Makes decisions stream by stream: Begin, then Extend for every decoding stream, then Prefill for
// the others, until it is full. Keeps its memory from step to step.
// At most `batch_rows` rows. Not empty when a stream was shown: a first prompt always gets a row
// when no stream decodes. A node whose parent is not complete in this step is not touched.
class StepScheduler {
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
  void Add(const PrefillPart& part);

  StepDecision step_;
  int rows_left_ = 0;
  int logits_left_ = 0;
  std::vector<std::int32_t> part_of_;  // by node: index in step_.prefill; -1: none
};

// The same in one call.
StepDecision DecideStep(const SchedulerView& view, int batch_rows);

}  // namespace banyan
