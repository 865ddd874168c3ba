#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

int StepDecision::rows() const {
  int rows = extend_rows;
  for (const PrefillPart& part : prefill) rows += part.count;
  return rows;
}

void StepScheduler::Begin(int batch_rows, int logit_rows) {
  BANYAN_CHECK(batch_rows > 0 && logit_rows > 0);
  for (const PrefillPart& part : step_.prefill) part_of_[part.node.index()] = -1;
  step_.prefill.clear();
  step_.extend.clear();
  step_.extend_rows = 0;
  rows_left_ = batch_rows;
  logits_left_ = logit_rows;
}

bool StepScheduler::Extend(StreamId stream, int rows, bool logits) {
  if (rows > rows_left_ || (logits && rows > logits_left_)) return false;
  step_.extend.push_back(stream);
  step_.extend_rows += rows;
  rows_left_ -= rows;
  if (logits) logits_left_ -= rows;
  return true;
}

void StepScheduler::LimitPrompts(int rows) { rows_left_ = std::min(rows_left_, rows); }

// Schedules what is missing on the path, from the root down, as far as rows last.
void StepScheduler::Prefill(std::span<const PromptNode> path, const PrefillWish& wish) {
  int most_rows = wish.most_rows;
  for (const PromptNode& node : path) {
    const int missing = node.tokens - Progress(node);
    if (missing > 0 && !Take(node, missing, most_rows)) return;
  }
  if (wish.logits) WantLogits(path.back());
}

std::int32_t StepScheduler::PartOf(NodeId node) const {
  return node.index() < part_of_.size() ? part_of_[node.index()] : -1;
}

void StepScheduler::Add(const PrefillPart& part) {
  if (part.node.index() >= part_of_.size()) part_of_.resize(2 * part.node.index() + 16, -1);
  part_of_[part.node.index()] = static_cast<std::int32_t>(step_.prefill.size());
  step_.prefill.push_back(part);
}

int StepScheduler::Progress(const PromptNode& node) const {
  const std::int32_t index = PartOf(node.node);
  if (index < 0) return node.filled;
  const PrefillPart& part = step_.prefill[static_cast<size_t>(index)];
  return part.first_key + part.count;
}

// True when the node is complete after this step.
bool StepScheduler::Take(const PromptNode& node, int missing, int& most_rows) {
  const int count = std::min({missing, rows_left_, most_rows});
  if (count == 0) return false;
  const std::int32_t index = PartOf(node.node);
  if (index < 0) {
    Add({node.node, node.filled, count, false});
  } else {
    step_.prefill[static_cast<size_t>(index)].count += count;
  }
  rows_left_ -= count;
  most_rows -= count;
  return count == missing;
}

// The node is complete. Its last row gives the logits: in this step's part, or, when the node was
// complete before, fed once more (it writes the bits that are already there).
void StepScheduler::WantLogits(const PromptNode& leaf) {
  const std::int32_t index = PartOf(leaf.node);
  if (index >= 0 && step_.prefill[static_cast<size_t>(index)].logits) return;
  if (logits_left_ == 0 || (index < 0 && rows_left_ == 0)) return;
  --logits_left_;
  if (index >= 0) {
    step_.prefill[static_cast<size_t>(index)].logits = true;
    return;
  }
  Add({leaf.node, leaf.tokens - 1, 1, true});
  --rows_left_;
}

StepDecision DecideStep(const SchedulerView& view, int batch_rows) {
  StepScheduler scheduler;
  scheduler.Begin(batch_rows);
  for (const StreamId stream : view.decoding) scheduler.Extend(stream);
  for (const PrefillView& stream : view.prefilling) {
    if (scheduler.full()) break;
    scheduler.Prefill(stream.path);
  }
  return scheduler.decision();
}

}  // namespace banyan
