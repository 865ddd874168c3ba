// Which rows the next step has: one for every stream that writes, and prompts in what is left.
#include <algorithm>
#include <set>

#include "engine/core.h"

namespace banyan {

// Streams with a token under way count as if they had it. Whether it stops them is not known yet;
// that it is their last for want of room is.
void EngineCore::Decide() {
  // Memory may allow smaller steps only, but never less than one stream's branches.
  const size_t least = running_.empty() ? 1 : at(running_.front()).branches.size();
  scheduler_.Begin(std::max(step_rows_, static_cast<int>(least)), memory_.logit_rows);
  std::shared_ptr<SkeletonRun> skeleton;  // of the stream before
  for (size_t i = 0; i < running_.size() && !scheduler_.full(); ++i) {
    const StreamId id = running_[i];
    if (!Alive(id)) continue;  // it gave its memory to an earlier one
    Stream& stream = at(id);
    if (stream.skeleton) {
      if (stream.skeleton == skeleton) continue;
      skeleton = stream.skeleton;
      ExtendSkeleton(skeleton);
      DecideFirstTokens(*skeleton);
      continue;
    }
    const auto branches = static_cast<int>(stream.branches.size());
    if (branches > std::min(scheduler_.rows_left(), scheduler_.logits_left())) continue;
    if (!Decodes(stream)) {
      if (branches > 1) DecideFirstToken(stream);
      continue;
    }
    if (EndsByLength(stream, stream.tokens_under_way)) continue;
    if (GrowTail(stream)) scheduler_.Extend(id, branches);
  }
  ForgetEnded();
  const int writing = scheduler_.decision().extend_rows;
  if (writing > 0) scheduler_.LimitPrompts(std::max(mixed_rows_ - writing, (mixed_rows_ + 3) / 4));
  DecidePrompts();
}

// In order of rank. Where a long prompt comes first, others get half of the rows, those that miss
// least first: a short request waits for its own rows, not for all of the long one.
void EngineCore::DecidePrompts() {
  prompting_.clear();
  const int rows = scheduler_.rows_left();
  for (const StreamId id : running_) {
    if (scheduler_.full()) return;
    const Stream& stream = at(id);
    if (Decodes(stream)) continue;
    if (!fair_) {
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
    DecidePrompt(at(first), half);
    std::stable_sort(prompting_.begin() + 1, prompting_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::rotate(prompting_.begin(), prompting_.begin() + 1, prompting_.end());
  }
  for (const auto& [missing, id] : prompting_) {
    if (scheduler_.full()) return;
    DecidePrompt(at(id), rows);
  }
}

// The branches of a panel need their logits in one step. If all that they miss fits into this one,
// it is that; else the last token of each waits for DecideFirstToken.
void EngineCore::DecidePrompt(const Stream& stream, int most_rows) {
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
void EngineCore::DecideFirstToken(const Stream& panel) {
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
int EngineCore::MissingRows(const Stream& stream) {
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

// What must be in memory before the stream's next token, into path_. A stream that was preempted
// also has its answer so far to compute; if the answer is one segment with the prompt's last
// (Forest::AddTail), which it begins as a copy of, that one must be there first.
void EngineCore::ShowPath(const Stream& stream, const Branch& branch) {
  path_.clear();
  for (NodeId node = branch.leaf; node.valid(); node = forest_.at(node).parent) {
    path_.push_back({node, static_cast<int>(forest_.at(node).tokens.size()), cache_.filled(node)});
  }
  std::reverse(path_.begin(), path_.end());
  path_has_logits_ = true;
  if (stored_) {  // what is being loaded, and what comes after it, waits
    const auto loading = std::ranges::find_if(
        path_, [this](const PromptNode& node) { return stored_->Loading(node.node); });
    if (loading != path_.end()) {
      path_.erase(loading, path_.end());
      path_has_logits_ = false;
      return;
    }
  }
  if (!HasWritten(stream)) return;
  if (stream.skeleton) {  // its tokens are fed again one by one, with the others'
    path_has_logits_ = false;
    return;
  }
  const int taken = forest_.TakenOver(branch.leaf);
  if (taken > 0 && cache_.filled(branch.leaf) < path_.back().tokens) {
    path_has_logits_ = false;
    return;
  }
  path_.push_back({branch.tail, static_cast<int>(forest_.at(branch.tail).tokens.size()),
                   std::max(taken, cache_.filled(branch.tail))});
}

bool EngineCore::Decodes(const Stream& stream) const {
  return stream.state == Stream::State::kDecode || stream.tokens_under_way > 0 || stream.ended;
}

// Whether the answer being written ends with its next `more`-th token whatever that is.
bool EngineCore::EndsByLength(const Stream& stream, int more) const {
  if (more == 0) return false;
  const size_t tokens = stream.answer.tokens.size() + static_cast<size_t>(more);
  return tokens >= stream.most_tokens() || EndPosition(stream) + more >= config_.context_length;
}

// Of the branch that has come furthest.
int EngineCore::EndPosition(const Stream& stream) const {
  int end = 0;
  for (const Branch& branch : stream.branches) {
    end = std::max(end, forest_.at(branch.tail).end_position());
  }
  return end;
}

// Whether its next token comes after tokens of its own.
bool EngineCore::HasWritten(const Stream& stream) const {
  return static_cast<std::int32_t>(forest_.at(stream.lead().tail).tokens.size()) >
         forest_.TakenOver(stream.lead().leaf);
}

}  // namespace banyan
