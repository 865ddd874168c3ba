// Which rows the next step has: one for every stream that writes, and prompts in what is left.
#include <algorithm>

#include "engine/core.h"

namespace banyan {

// Streams with a token under way count as if they had it. Whether it stops them is not known yet;
// that it is their last for want of room is.
void EngineCore::Decide() {
  scheduler_.Begin(step_rows_, max_streams_);
  std::shared_ptr<SkeletonRun> skeleton;  // of the stream before
  for (size_t i = 0; i < running_.size() && !scheduler_.full(); ++i) {
    const StreamId id = running_[i];
    if (!Alive(id)) continue;  // it gave its memory to an earlier one
    Stream& stream = at(id);
    if (stream.skeleton) {
      if (stream.skeleton != skeleton) ExtendSkeleton(skeleton = stream.skeleton);
      continue;
    }
    if (!Decodes(stream) || EndsByLength(stream, stream.tokens_under_way)) continue;
    if (GrowTail(stream)) scheduler_.Extend(id);
  }
  ForgetEnded();
  const auto writing = static_cast<int>(scheduler_.decision().extend.size());
  if (writing > 0) scheduler_.LimitPrompts(std::max(mixed_rows_ - writing, (mixed_rows_ + 3) / 4));
  DecidePrompts();
}

// In order of rank. Where a long prompt comes first, others get half of the rows, those that miss
// least first: a short request waits for its own rows, not for all of the long one.
void EngineCore::DecidePrompts() {
  const auto prefill = [this](const Stream& stream, int most_rows) {
    ShowPath(stream);
    scheduler_.Prefill(path_, {path_has_logits_, most_rows});
  };
  prompting_.clear();
  const int rows = scheduler_.rows_left();
  for (const StreamId id : running_) {
    if (scheduler_.full()) return;
    const Stream& stream = at(id);
    if (Decodes(stream)) continue;
    if (!fair_) {
      prefill(stream, rows);
    } else {
      prompting_.emplace_back(MissingRows(stream), id);
    }
  }
  if (prompting_.empty()) return;
  const int half = (rows + 1) / 2;
  const StreamId first = prompting_.front().second;
  const bool share = prompting_.size() > 1 && prompting_.front().first > half;
  if (share) {
    prefill(at(first), half);
    std::stable_sort(prompting_.begin() + 1, prompting_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::rotate(prompting_.begin(), prompting_.begin() + 1, prompting_.end());
  }
  for (const auto& [missing, id] : prompting_) {
    if (scheduler_.full()) return;
    prefill(at(id), rows);
  }
}

// Rows until the stream's next token.
int EngineCore::MissingRows(const Stream& stream) {
  ShowPath(stream);
  int missing = 0;
  for (const PromptNode& node : path_) missing += node.tokens - node.filled;
  return missing;
}

// What must be in memory before the stream's next token, into path_. A stream that was preempted
// also has its answer so far to compute; if the answer is one segment with the prompt's last
// (Forest::AddTail), which it begins as a copy of, that one must be there first.
void EngineCore::ShowPath(const Stream& stream) {
  path_.clear();
  for (NodeId node = stream.leaf; node.valid(); node = forest_.at(node).parent) {
    path_.push_back({node, static_cast<int>(forest_.at(node).tokens.size()), cache_.filled(node)});
  }
  std::reverse(path_.begin(), path_.end());
  path_has_logits_ = true;
  if (!HasWritten(stream)) return;
  if (stream.skeleton) {  // its tokens are fed again one by one, with the others'
    path_has_logits_ = false;
    return;
  }
  const int taken = forest_.TakenOver(stream.leaf);
  if (taken > 0 && cache_.filled(stream.leaf) < path_.back().tokens) {
    path_has_logits_ = false;
    return;
  }
  path_.push_back({stream.tail, static_cast<int>(forest_.at(stream.tail).tokens.size()),
                   std::max(taken, cache_.filled(stream.tail))});
}

bool EngineCore::Decodes(const Stream& stream) const {
  return stream.state == Stream::State::kDecode || stream.tokens_under_way > 0 || stream.ended;
}

// Whether the answer being written ends with its next `more`-th token whatever that is.
bool EngineCore::EndsByLength(const Stream& stream, int more) const {
  if (more == 0) return false;
  const size_t tokens = stream.answer.tokens.size() + static_cast<size_t>(more);
  return tokens >= stream.most_tokens() ||
         forest_.at(stream.tail).end_position() + more >= config_.context_length;
}

// Whether its next token comes after tokens of its own.
bool EngineCore::HasWritten(const Stream& stream) const {
  return static_cast<std::int32_t>(forest_.at(stream.tail).tokens.size()) >
         forest_.TakenOver(stream.leaf);
}

}  // namespace banyan
