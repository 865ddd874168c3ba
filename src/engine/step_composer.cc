#include "engine/step_composer.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace banyan {

const StepDecision& StepComposer::Decide(int most_rows) {
  const RunningStreams& running = admission_.running();
  const size_t least = running.empty() ? 1 : running.at(running.order().front()).branches.size();
  scheduler_.Begin(std::max(most_rows, static_cast<int>(least)), limits_.logit_rows);
  ExtendStreams();
  admission_.ForgetRemoved();
  const int writing = scheduler_.decision().extend_rows;
  if (writing > 0) {
    scheduler_.LimitPrompts(std::max(limits_.mixed_rows - writing, (limits_.mixed_rows + 3) / 4));
  }
  DecidePrompts();
  return scheduler_.decision();
}

bool StepComposer::Fits(const Stream& stream) const {
  const auto branches = static_cast<int>(stream.branches.size());
  return branches <= std::min(scheduler_.rows_left(), scheduler_.logits_left());
}

// Streams with a token under way count as if they had it. Whether it stops them is not known yet;
// that it is their last for want of room is.
void StepComposer::ExtendStreams() {
  const RunningStreams& running = admission_.running();
  std::shared_ptr<SkeletonRun> skeleton;  // of the stream before
  for (const StreamId id : running.order()) {
    if (scheduler_.full()) return;
    if (!running.Has(id)) continue;  // it gave its memory to an earlier one
    Stream& stream = running.at(id);
    if (stream.skeleton) {
      if (stream.skeleton == skeleton) continue;
      skeleton = stream.skeleton;
      ExtendSkeleton(*skeleton);
      continue;
    }
    if (!Fits(stream)) continue;
    if (!stream.decodes()) {
      if (stream.branches.size() > 1) DecideFirstToken(stream);
      continue;
    }
    if (EndsByLength(stream)) continue;
    if (admission_.Grow(stream)) {
      scheduler_.Extend(id, static_cast<int>(stream.branches.size()));
    }
  }
}

void StepComposer::ExtendSkeleton(const SkeletonRun& run) {
  const RunningStreams& running = admission_.running();
  const std::span<const SkeletonTurns::Turn> turns =
      skeletons_.Turns(run, scheduler_.rows_left(), scheduler_.logits_left());
  const bool all_run = std::ranges::all_of(turns, [&](const SkeletonTurns::Turn& turn) {
    return admission_.Grow(running.at(turn.stream));
  });
  if (!all_run) return;  // then no value of the skeleton does
  for (const SkeletonTurns::Turn& turn : turns) {
    BANYAN_CHECK(scheduler_.Extend(turn.stream, turn.rows, turn.logits));
  }
  // A value's branches need the logits of its first token in one step, like any panel's.
  for (const StreamId id : run.members) {
    const Stream& stream = running.at(id);
    if (stream.branches.size() > 1 && Fits(stream) && !stream.decodes()) DecideFirstToken(stream);
  }
}

// Whether the tokens that are under way are the answer's last whatever they are.
bool StepComposer::EndsByLength(const Stream& stream) const {
  const int more = stream.tokens_under_way;
  if (more == 0) return false;
  const size_t tokens = stream.answer.tokens.size() + static_cast<size_t>(more);
  return tokens >= stream.most_tokens() || memory_.ContextFull(stream, more);
}

// In order of rank. Where a long prompt comes first, others get half of the rows, those that miss
// least first: a short request waits for its own rows, not for all of the long one.
void StepComposer::DecidePrompts() {
  const RunningStreams& running = admission_.running();
  prompting_.clear();
  const int rows = scheduler_.rows_left();
  for (const StreamId id : running.order()) {
    if (scheduler_.full()) return;
    const Stream& stream = running.at(id);
    if (stream.decodes()) continue;
    if (!limits_.fair) {
      DecidePrompt(stream, rows);
    } else {
      prompting_.emplace_back(MissingRows(stream), id);
    }
  }
  if (prompting_.empty()) return;
  const int half = (rows + 1) / 2;
  const StreamId first = prompting_.front().second;
  const bool share = prompting_.size() > 1 && prompting_.front().first > half;
  if (share) {
    DecidePrompt(running.at(first), half);
    std::stable_sort(prompting_.begin() + 1, prompting_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::rotate(prompting_.begin(), prompting_.begin() + 1, prompting_.end());
  }
  for (const auto& [missing, id] : prompting_) {
    if (scheduler_.full()) return;
    DecidePrompt(running.at(id), rows);
  }
}

// The branches of a panel need their logits in one step. If all that they miss fits into this one,
// it is that; else the last token of each waits for DecideFirstToken.
void StepComposer::DecidePrompt(const Stream& stream, int most_rows) {
  if (stream.branches.size() == 1) {
    ShowPath(stream, stream.lead());
    return scheduler_.Prefill(path_, {path_has_logits_, most_rows});
  }
  const bool whole = MissingRows(stream) <= std::min(scheduler_.rows_left(), most_rows) &&
                     static_cast<int>(stream.branches.size()) <= scheduler_.logits_left();
  bool logits = whole;
  for (const Branch& branch : stream.branches) {
    ShowPath(stream, branch);
    logits = logits && path_has_logits_;
  }
  for (const Branch& branch : stream.branches) {
    ShowPath(stream, branch);
    if (!logits && path_has_logits_) --path_.back().tokens;
    const int before = scheduler_.rows_left();
    scheduler_.Prefill(path_, {logits, most_rows});
    most_rows -= before - scheduler_.rows_left();
    if (scheduler_.full() || most_rows == 0) return;
  }
}

// A panel whose branches miss nothing but their last tokens takes them like a stream that writes.
void StepComposer::DecideFirstToken(const Stream& panel) {
  for (const Branch& branch : panel.branches) {
    ShowPath(panel, branch);
    if (!path_has_logits_) return;
    for (const PromptNode& node : path_) {
      const int late = node.node == path_.back().node ? 1 : 0;
      if (node.filled < node.tokens - late) return;
    }
  }
  for (const Branch& branch : panel.branches) {
    ShowPath(panel, branch);
    scheduler_.Prefill(path_);
  }
}

// Rows until the stream's next token.
int StepComposer::MissingRows(const Stream& stream) {
  int missing = 0;
  const bool several = stream.branches.size() > 1;
  std::set<NodeId> known;
  for (const Branch& branch : stream.branches) {
    ShowPath(stream, branch);
    for (const PromptNode& node : path_) {
      if (several && !known.insert(node.node).second) continue;
      // A token that is there is fed again for its logits.
      const int least = several && node.node == path_.back().node ? 1 : 0;
      missing += std::max(node.tokens - node.filled, least);
    }
  }
  return missing;
}

// A node of path_ that will begin with a copy of another's beginning waits, and so does what comes
// after it: that beginning takes their place. They have the same parent.
bool StepComposer::AwaitBeginning() {
  for (size_t i = 0; i < path_.size(); ++i) {
    if (path_[i].filled > 0) continue;
    const std::optional<CommonBeginning> awaited = memory_.Awaited(path_[i].node);
    if (!awaited) continue;
    path_.resize(i);
    path_.push_back({awaited->node, awaited->tokens, memory_.cache().filled(awaited->node)});
    return true;
  }
  return false;
}

// What must be in memory before the stream's next token, into path_. A stream that was preempted
// also has its answer so far to compute; if the answer is one segment with the prompt's last
// (Forest::AddTail), which it begins as a copy of, that one must be there first.
void StepComposer::ShowPath(const Stream& stream, const Branch& branch) {
  const auto as_prompt = [this](NodeId node) {
    return PromptNode{node, memory_.Tokens(node), memory_.cache().filled(node)};
  };
  path_.clear();
  for (NodeId node = branch.leaf; node.valid(); node = memory_.forest().at(node).parent) {
    path_.push_back(as_prompt(node));
  }
  std::reverse(path_.begin(), path_.end());
  path_has_logits_ = false;
  const bool awaits = AwaitBeginning();
  const auto loading = std::ranges::find_if(
      path_, [this](const PromptNode& node) { return memory_.Loading(node.node); });
  if (loading != path_.end()) {  // it, and what comes after it, waits
    path_.erase(loading, path_.end());
    return;
  }
  if (awaits) return;
  if (memory_.HasWritten(stream)) {
    if (stream.skeleton) return;  // its tokens are fed again one by one, with the others'
    const int taken = memory_.forest().TakenOver(branch.leaf);
    if (taken > 0 && !memory_.Complete(branch.leaf)) return;
    path_.push_back(as_prompt(branch.tail));
    path_.back().filled = std::max(taken, path_.back().filled);
  }
  path_has_logits_ = true;
}

}  // namespace banyan
