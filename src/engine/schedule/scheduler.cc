// The limit of a step's rows, the budget that hands them out, and the decision who gets them.
#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/schedule/skeleton.h"

namespace banyan {
namespace {

// Steps after a refusal of memory until larger ones are tried again.
constexpr int kStepsBeforeGrowing = 32;

}  // namespace

void StepRowLimit::Refused(int rows) {
  rows_ = rows / 2;
  launched_ = 0;
  ++refusals_;
}

void StepRowLimit::Launched() {
  if (rows_ == most_ || ++launched_ < kStepsBeforeGrowing) return;
  rows_ = std::min(most_, 2 * rows_);
  launched_ = 0;
}

int StepDecision::rows() const {
  int rows = extend_rows;
  for (const NodeRows& part : prefill) rows += part.count;
  return rows;
}

void RowBudget::Begin(int batch_rows, int logit_rows) {
  BANYAN_CHECK(batch_rows > 0 && logit_rows > 0);
  for (const NodeRows& part : step_.prefill) part_of_[part.node.index()] = -1;
  step_.prefill.clear();
  step_.extend.clear();
  step_.extend_rows = 0;
  rows_left_ = batch_rows;
  logits_left_ = logit_rows;
}

bool RowBudget::Extend(StreamId stream, int rows, bool logits) {
  if (rows > rows_left_ || (logits && rows > logits_left_)) return false;
  step_.extend.push_back(stream);
  step_.extend_rows += rows;
  rows_left_ -= rows;
  if (logits) logits_left_ -= rows;
  return true;
}

void RowBudget::LimitPrompts(int rows) { rows_left_ = std::min(rows_left_, rows); }

// Schedules what is missing on the path, from the root down, as far as the rows suffice.
void RowBudget::Prefill(std::span<const PromptNode> path, const PrefillWish& wish) {
  int most_rows = wish.most_rows;
  for (const PromptNode& node : path) {
    const int missing = node.tokens - Progress(node);
    if (missing > 0 && node.once && wish.logits && logits_left_ == 0) {
      Take(node, missing - 1, most_rows);
      return;
    }
    if (missing > 0 && !Take(node, missing, most_rows)) return;
  }
  if (wish.logits) WantLogits(path.back());
}

std::int32_t RowBudget::PartOf(NodeId node) const {
  return node.index() < part_of_.size() ? part_of_[node.index()] : -1;
}

void RowBudget::Add(const NodeRows& part) {
  if (part.node.index() >= part_of_.size()) part_of_.resize(2 * part.node.index() + 16, -1);
  part_of_[part.node.index()] = static_cast<std::int32_t>(step_.prefill.size());
  step_.prefill.push_back(part);
}

int RowBudget::Progress(const PromptNode& node) const {
  const std::int32_t index = PartOf(node.node);
  if (index < 0) return node.filled;
  const NodeRows& part = step_.prefill[static_cast<size_t>(index)];
  return part.first_key + part.count;
}

// True when the node is complete after this step.
bool RowBudget::Take(const PromptNode& node, int missing, int& most_rows) {
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

// REQUIRES: the node is complete. Its last row gives the logits: in this step's part or, if the
// node was complete before, fed once more (which writes the bits that are already there).
void RowBudget::WantLogits(const PromptNode& leaf) {
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

const StepDecision& Scheduler::Decide(int most_rows) {
  const RunningStreams& running = admission_.running();
  const size_t least = running.empty() ? 1 : running.at(running.order().front()).branches.size();
  budget_.Begin(std::max(most_rows, static_cast<int>(least)), limits_.logit_rows);
  ExtendStreams();
  admission_.ForgetRemoved();
  const int writing = budget_.decision().extend_rows;
  if (writing > 0) {
    budget_.LimitPrompts(std::max(limits_.mixed_rows - writing, (limits_.mixed_rows + 3) / 4));
  }
  PrefillStreams();
  return budget_.decision();
}

bool Scheduler::Fits(const Stream& stream) const {
  const auto branches = static_cast<int>(stream.branches.size());
  return branches <= std::min(budget_.rows_left(), budget_.logits_left());
}

// Streams with a token in flight count as if they had it. Whether it stops them is not known yet;
// whether it is their last by length is.
void Scheduler::ExtendStreams() {
  const RunningStreams& running = admission_.running();
  std::shared_ptr<SkeletonRun> skeleton;  // of the stream before
  for (const StreamId id : running.order()) {
    if (budget_.full()) return;
    if (!running.Has(id)) continue;  // it was preempted
    Stream& stream = running.at(id);
    if (stream.skeleton) {
      if (stream.skeleton == skeleton) continue;
      skeleton = stream.skeleton;
      ExtendSkeleton(*skeleton);
      continue;
    }
    if (!Fits(stream)) continue;
    if (!stream.decodes()) {
      if (stream.branches.size() > 1) PrefillLastTokens(stream);
      continue;
    }
    if (EndsByLength(stream)) continue;
    if (admission_.Grow(stream)) {
      budget_.Extend(id, static_cast<int>(stream.branches.size()));
    }
  }
}

void Scheduler::ExtendSkeleton(const SkeletonRun& run) {
  const RunningStreams& running = admission_.running();
  const std::span<const SkeletonSchedule::Advance> advances =
      skeletons_.NextRows(run, budget_.rows_left(), budget_.logits_left());
  const bool all_run = std::ranges::all_of(advances, [&](const SkeletonSchedule::Advance& advance) {
    return admission_.Grow(running.at(advance.stream));
  });
  if (!all_run) return;  // then no value of the skeleton does
  for (const SkeletonSchedule::Advance& advance : advances) {
    BANYAN_CHECK(budget_.Extend(advance.stream, advance.rows, advance.logits));
  }
  // A value's branches need the logits of its first token in one step, like any panel's.
  for (const StreamId id : run.members) {
    const Stream& stream = running.at(id);
    if (stream.branches.size() > 1 && Fits(stream) && !stream.decodes()) PrefillLastTokens(stream);
  }
}

// Whether the tokens in flight are the answer's last whatever they are.
bool Scheduler::EndsByLength(const Stream& stream) const {
  const int more = stream.tokens_in_flight;
  if (more == 0) return false;
  const size_t tokens = stream.answer.tokens.size() + static_cast<size_t>(more);
  return tokens >= stream.most_tokens() || memory_.ContextFull(stream, more);
}

// In order of rank. If the first prompt is long, the others get half of the rows, shortest first: a
// short request waits for its own rows, not for all of the long one.
void Scheduler::PrefillStreams() {
  const RunningStreams& running = admission_.running();
  prefilling_.clear();
  const int rows = budget_.rows_left();
  for (const StreamId id : running.order()) {
    if (budget_.full()) return;
    const Stream& stream = running.at(id);
    if (stream.decodes()) continue;
    if (!limits_.fair) {
      PrefillStream(stream, rows);
    } else {
      prefilling_.emplace_back(MissingRows(stream), id);
    }
  }
  if (prefilling_.empty()) return;
  const int half = (rows + 1) / 2;
  const StreamId first = prefilling_.front().second;
  const bool share = prefilling_.size() > 1 && prefilling_.front().first > half;
  if (share) {
    PrefillStream(running.at(first), half);
    std::stable_sort(prefilling_.begin() + 1, prefilling_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::rotate(prefilling_.begin(), prefilling_.begin() + 1, prefilling_.end());
  }
  for (const auto& [missing, id] : prefilling_) {
    if (budget_.full()) return;
    PrefillStream(running.at(id), rows);
  }
}

// The branches of a panel need their logits in one step. If all missing rows fit into this step, it
// is this one; else the last token of each waits for PrefillLastTokens.
void Scheduler::PrefillStream(const Stream& stream, int most_rows) {
  if (stream.branches.size() == 1) {
    ShowPath(stream, stream.lead());
    return budget_.Prefill(path_, {path_has_logits_, most_rows});
  }
  const bool whole = MissingRows(stream) <= std::min(budget_.rows_left(), most_rows) &&
                     static_cast<int>(stream.branches.size()) <= budget_.logits_left();
  bool logits = whole;
  for (const Branch& branch : stream.branches) {
    ShowPath(stream, branch);
    logits = logits && path_has_logits_;
  }
  for (const Branch& branch : stream.branches) {
    ShowPath(stream, branch);
    if (!logits && path_has_logits_) --path_.back().tokens;
    const int before = budget_.rows_left();
    budget_.Prefill(path_, {logits, most_rows});
    most_rows -= before - budget_.rows_left();
    if (budget_.full() || most_rows == 0) return;
  }
}

// A panel of which only the last tokens are missing gets rows for them like a decoding stream.
void Scheduler::PrefillLastTokens(const Stream& panel) {
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
    budget_.Prefill(path_);
  }
}

// Rows until the stream's next token.
int Scheduler::MissingRows(const Stream& stream) {
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

// A node of path_ that will get a copy of another's prefix waits, and so do the nodes below it: the
// prefix, which has the same parent, takes their place.
bool Scheduler::AwaitPrefix() {
  for (size_t i = 0; i < path_.size(); ++i) {
    if (path_[i].filled > 0) continue;
    const std::optional<CommonPrefix> awaited = memory_.Awaited(path_[i].node);
    if (!awaited) continue;
    path_.resize(i);
    path_.push_back({awaited->node, awaited->tokens, memory_.cache().filled(awaited->node)});
    return true;
  }
  return false;
}

// Sets path_ to what must be in memory before the stream's next token. A stream that was preempted
// also has its answer so far to compute; if that is one segment with the prompt's last
// (Forest::AddTail), the prompt's must be computed first, because the answer begins with a copy.
void Scheduler::ShowPath(const Stream& stream, const Branch& branch) {
  const auto as_prompt = [this](NodeId node) {
    return PromptNode{node, memory_.Tokens(node), memory_.cache().filled(node)};
  };
  path_.clear();
  for (NodeId node = branch.leaf; node.valid(); node = memory_.forest().at(node).parent) {
    path_.push_back(as_prompt(node));
  }
  std::reverse(path_.begin(), path_.end());
  path_has_logits_ = false;
  const bool awaits = AwaitPrefix();
  const auto loading = std::ranges::find_if(
      path_, [this](const PromptNode& node) { return memory_.Loading(node.node); });
  if (loading != path_.end()) {  // it and the nodes below it wait
    path_.erase(loading, path_.end());
    return;
  }
  if (awaits) return;
  if (memory_.Written(stream) > 0) {
    if (stream.skeleton) return;  // its tokens are fed again one by one, with the others'
    const int taken = memory_.forest().TakenOver(branch.leaf);
    if (taken > 0 && !memory_.Complete(branch.leaf)) return;
    path_.push_back(as_prompt(branch.tail));
    path_.back().filled = std::max(taken, path_.back().filled);
  }
  path_.back().once = memory_.cache().slots().any();
  path_has_logits_ = true;
}

}  // namespace banyan
