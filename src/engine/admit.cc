// Waiting streams → running ones: the path is found or added, pinned, and given room for the prompt
// and the first token; a stream that was preempted gets room for all that it can still need.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/core.h"

namespace banyan {
namespace {

std::int64_t PagesFor(std::int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

std::int64_t PromptPages(const Stream& stream) {
  std::set<std::int32_t> segments;  // those of a panel share some
  for (const std::int32_t leaf : stream.request->LeavesOf(stream.declared())) {
    for (const std::int32_t index : stream.request->PathTo(leaf)) segments.insert(index);
  }
  std::int64_t pages = 0;
  for (const std::int32_t index : segments) {
    pages += PagesFor(static_cast<std::int64_t>(
        stream.request->segments[static_cast<size_t>(index)].tokens.size()));
  }
  return pages;
}

}  // namespace

void EngineCore::Admit() {
  if (running_.empty()) no_room_ = false;
  while (!line_.empty() && !no_room_ && running() < max_streams_) {
    std::unique_ptr<Stream> next = line_.Take();
    if (!HasPlace(*next) || (options_.strategy == Strategy::kStacked && !StackFits(*next))) {
      return line_.Return(std::move(next));
    }
    if (options_.one_by_one) cache_.EvictAll();
    if (TryAdmit(*next)) {
      Begin(std::move(next));
    } else if (running_.empty()) {
      DeliverEnds(*next, FinishReason::kError,
                  fmt::format("KV memory is too small: the prompt alone needs {} pages of {} "
                              "tokens and its answer more, the budget has {} pages",
                              PromptPages(*next), kPageTokens, cache_.total_pages()));
    } else {
      no_room_ = true;
      line_.Return(std::move(next));
    }
  }
}

// A stream alone may have more branches than otherwise run at once.
bool EngineCore::HasPlace(const Stream& next) const {
  return running_.empty() ||
         running_branches_ + next.request->BranchesOf(next.declared()) <= max_streams_;
}

bool EngineCore::StackFits(const Stream& next) const {
  if (running_.empty()) return true;
  std::set<int> stacks = {next.declared().stack};
  for (const StreamId id : running_) stacks.insert(at(id).declared().stack);
  return static_cast<int>(stacks.size()) <= options_.stacks;
}

// The node of the prompt's last token. Segments that a stream of the same request has met are found
// by that; others by their tokens, or added.
NodeId EngineCore::FindPath(const Stream& stream, std::int32_t leaf_segment) {
  const bool share = options_.strategy != Strategy::kFlat;
  std::vector<RequestSegment>& segments = stream.request->segments;
  const std::vector<std::int32_t> path = stream.request->PathTo(leaf_segment);
  NodeId node;
  size_t next = path.size();
  while (next > 0 && !node.valid()) {
    const RequestSegment& segment = segments[static_cast<size_t>(path[next - 1])];
    if (share && forest_.Exists(segment.node)) {
      node = segment.node.node;
    } else {
      --next;
    }
  }
  std::vector<NodeSplit> splits;
  for (; next < path.size(); ++next) {
    RequestSegment& segment = segments[static_cast<size_t>(path[next])];
    node = forest_.AddSegment(node, {segment.tokens, segment.first_position, share}, splits);
    for (const NodeSplit& split : splits) cache_.Split(split);
    splits.clear();
    if (share) segment.node = forest_.Remember(node);
  }
  return node;
}

// Keys that its tail holds when every answer has its full length. The last token is never fed, and
// a stream of one token has no row in its tail.
int EngineCore::TailKeys(const Stream& stream, NodeId leaf) const {
  const std::vector<AnswerRequest>& answers = stream.request->answers;
  auto tokens = static_cast<std::int64_t>(stream.written.size()) -
                static_cast<std::int64_t>(stream.answer.tokens.size());
  for (std::int32_t a = stream.answer_index; a < stream.end_answer; ++a) {
    const AnswerRequest& wanted = answers[static_cast<size_t>(a)];
    tokens +=
        wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
  }
  const std::int64_t room = config_.context_length - forest_.at(leaf).end_position();
  tokens = std::clamp<std::int64_t>(tokens, 0, room);
  return tokens > 1 ? forest_.TakenOver(leaf) + static_cast<int>(tokens) - 1 : 0;
}

// Pins the leaves of all branches, and so all above them.
void EngineCore::FindPaths(Stream& stream) {
  for (const std::int32_t leaf : stream.request->LeavesOf(stream.declared())) {
    Branch& branch = stream.branches.emplace_back();
    branch.leaf = FindPath(stream, leaf);
    cache_.Pin(branch.leaf);
  }
}

// Of all branches, each once, parents first.
std::vector<NodeId> EngineCore::PromptNodes(const Stream& stream) const {
  if (stream.branches.size() == 1) return forest_.Path(stream.lead().leaf);
  std::vector<NodeId> nodes;
  std::set<NodeId> known;
  for (const Branch& branch : stream.branches) {
    for (const NodeId node : forest_.Path(branch.leaf)) {
      if (known.insert(node).second) nodes.push_back(node);
    }
  }
  return nodes;
}

// Keys that a branch's tail gets room for at once.
int EngineCore::FirstTailKeys(const Stream& stream, const Branch& branch,
                              std::int64_t path_pages) const {
  const int all_keys = TailKeys(stream, branch.leaf);
  const int taken = forest_.TakenOver(branch.leaf);
  if (!stream.preempted) return std::min(all_keys, taken + 1);
  // All that it can need, or all there is: then it runs alone, as far as it gets.
  const auto branches = static_cast<std::int64_t>(stream.branches.size());
  const std::int64_t most = (cache_.total_pages() - path_pages) / branches * kPageTokens;
  const std::int64_t least = taken + static_cast<std::int64_t>(stream.written.size());
  return static_cast<int>(std::clamp<std::int64_t>(all_keys, 0, std::max(most, least)));
}

bool EngineCore::TryAdmit(Stream& stream) {
  FindPaths(stream);
  const std::vector<NodeId> nodes = PromptNodes(stream);
  std::int64_t missing = 0, path_pages = 0, tail_pages = 0;
  for (const NodeId node : nodes) {
    const auto tokens = static_cast<int>(forest_.at(node).tokens.size());
    missing += cache_.MissingPages(node, tokens);
    path_pages += PagesFor(tokens);
  }
  int cached = 0;
  for (const Branch& branch : stream.branches) {
    tail_pages += PagesFor(FirstTailKeys(stream, branch, path_pages));
    for (const NodeId node : forest_.Path(branch.leaf)) cached += cache_.filled(node);
  }
  std::int64_t spare = 0;
  if (!stream.preempted) {
    // A page for each of those that may want one next, so that not everyone who is let in has to
    // leave again.
    for (const StreamId id : running_) {
      spare += at(id).preempted ? 0 : static_cast<std::int64_t>(at(id).branches.size());
    }
  }
  if (missing + tail_pages + spare > cache_.available_pages()) {
    for (const Branch& branch : stream.branches) cache_.Unpin(branch.leaf);
    stream.branches.clear();  // what was added for it went again
    return false;
  }
  for (const NodeId node : nodes) {
    BANYAN_CHECK(cache_.Reserve(node, static_cast<int>(forest_.at(node).tokens.size())));
  }
  for (Branch& branch : stream.branches) {
    branch.tail = forest_.AddTail(branch.leaf);
    cache_.Pin(branch.tail);
    BANYAN_CHECK(cache_.Reserve(branch.tail, FirstTailKeys(stream, branch, path_pages)));
    for (const TokenId token : stream.written) forest_.Append(branch.tail, token);
    cache_.Touch(branch.leaf);
  }
  stream.written = {};
  running_branches_ += static_cast<int>(stream.branches.size());
  if (!std::exchange(stream.began, true)) {
    stream.answer.cached_tokens = cached;
    receipt_.prompt_tokens += stream.prompt_tokens;
  }
  return true;
}

void EngineCore::Begin(std::unique_ptr<Stream> stream) {
  StreamId id;
  if (free_ids_.empty()) {
    id = StreamId(static_cast<std::int32_t>(streams_.size()));
    streams_.emplace_back();
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  stream->id = id;
  stream->state = Stream::State::kPrefill;
  stream->declared().running = id;
  streams_[id.index()] = std::move(stream);
  const auto place = std::ranges::upper_bound(running_, at(id).rank(), {},
                                              [this](StreamId other) { return at(other).rank(); });
  running_.insert(place, id);
}

}  // namespace banyan
