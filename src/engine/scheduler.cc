#include "engine/scheduler.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace banyan {
namespace {

class Decision {
 public:
  explicit Decision(int batch_rows) : rows_left_(batch_rows) {}

  void Extend(std::span<const StreamId> decoding) {
    const size_t count = std::min(decoding.size(), static_cast<size_t>(rows_left_));
    step_.extend.assign(decoding.begin(), decoding.begin() + static_cast<std::ptrdiff_t>(count));
    rows_left_ -= static_cast<int>(count);
  }

  // Schedules what is missing on the path, from the root down, as far as rows last.
  void Prefill(const PrefillView& stream) {
    for (size_t i = 0; i < stream.path.size(); ++i) {
      const PromptNode& node = stream.path[i];
      const int missing = node.tokens - Progress(node);
      if (missing > 0 && !Take(node, missing)) return;
    }
    WantLogits(stream.path.back());
  }

  StepDecision Finish() { return std::move(step_); }
  bool full() const { return rows_left_ == 0; }

 private:
  int Progress(const PromptNode& node) const {
    const auto it = part_of_.find(node.node);
    if (it == part_of_.end()) return node.filled;
    const PrefillPart& part = step_.prefill[it->second];
    return part.first_key + part.count;
  }

  // True when the node is complete after this step.
  bool Take(const PromptNode& node, int missing) {
    const int count = std::min(missing, rows_left_);
    if (count == 0) return false;
    const auto [it, added] = part_of_.try_emplace(node.node, step_.prefill.size());
    if (added) {
      step_.prefill.push_back({node.node, node.filled, count, false});
    } else {
      step_.prefill[it->second].count += count;
    }
    rows_left_ -= count;
    return count == missing;
  }

  // The node is complete. Its last row gives the logits: in this step's part, or, when the node was
  // complete before, fed once more (it writes the bits that are already there).
  void WantLogits(const PromptNode& leaf) {
    const auto it = part_of_.find(leaf.node);
    if (it != part_of_.end()) {
      step_.prefill[it->second].logits = true;
      return;
    }
    if (rows_left_ == 0) return;
    part_of_[leaf.node] = step_.prefill.size();
    step_.prefill.push_back({leaf.node, leaf.tokens - 1, 1, true});
    --rows_left_;
  }

  StepDecision step_;
  int rows_left_;
  std::unordered_map<NodeId, size_t> part_of_;  // node → index in step_.prefill
};

}  // namespace

int StepDecision::rows() const {
  int rows = static_cast<int>(extend.size());
  for (const PrefillPart& part : prefill) rows += part.count;
  return rows;
}

StepDecision DecideStep(const SchedulerView& view, int batch_rows) {
  BANYAN_CHECK(batch_rows > 0);
  Decision decision(batch_rows);
  decision.Extend(view.decoding);
  for (const PrefillView& stream : view.prefilling) {
    if (decision.full()) break;
    decision.Prefill(stream);
  }
  return decision.Finish();
}

}  // namespace banyan
