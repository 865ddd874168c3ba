// A waiting stream's way to memory: its paths are found or added, pinned, and given room for the
// prompt and the first token; one that was preempted gets room for all that it can still need.
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/stream_memory.h"

namespace banyan {
// The node of the prompt's last token. Segments that a stream of the same request has met are found
// by that; others by their tokens, or added.
NodeId StreamMemory::FindPath(const Stream& stream, std::int32_t leaf_segment) {
  const RequestStream& declared = stream.declared();
  const std::uint64_t scope = rules_.ScopeOf(*stream.request, declared);
  std::vector<RequestSegment>& segments = stream.request->segments;
  const std::vector<std::int32_t> path = stream.request->PathTo(leaf_segment);
  NodeId node;
  size_t next = path.size();
  while (next > 0 && !node.valid()) {
    const RequestSegment& segment = segments[static_cast<size_t>(path[next - 1])];
    if (rules_.Remembers(declared, next - 1) && forest_.Exists(segment.node)) {
      node = segment.node.node;
    } else {
      --next;
    }
  }
  std::vector<NodeSplit> splits;
  for (; next < path.size(); ++next) {
    RequestSegment& segment = segments[static_cast<size_t>(path[next])];
    const std::int64_t tokens_before = forest_.TotalTokens();
    node = forest_.AddSegment(node,
                              {segment.tokens, segment.first_position, rules_.Shares(next), scope,
                               stream.request->variant},
                              splits);
    for (const NodeSplit& split : splits) {
      cache_.Split(split);
      beginnings_.Split(split);
      if (stored_) stored_->Split(split);
    }
    splits.clear();
    if (forest_.TotalTokens() > tokens_before) beginnings_.Added(node);
    if (rules_.Remembers(declared, next)) segment.node = forest_.Remember(node);
  }
  return node;
}

// Keys that its tail holds when every answer has its full length. The last token is never fed, and
// a stream of one token has no row in its tail.
int StreamMemory::TailKeys(const Stream& stream, NodeId leaf) const {
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
void StreamMemory::FindPaths(Stream& stream) {
  for (const std::int32_t leaf : stream.request->LeavesOf(stream.declared())) {
    Branch& branch = stream.branches.emplace_back();
    branch.leaf = FindPath(stream, leaf);
    cache_.Pin(branch.leaf);
  }
}

// Of all branches, each once, parents first.
std::vector<NodeId> StreamMemory::PromptNodes(const Stream& stream) const {
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

// Keys that a branch's tail gets room for at once. One that was preempted gets all that it can
// need, or `most_pages`: then it runs alone, as far as it gets.
int StreamMemory::FirstTailKeys(const Stream& stream, const Branch& branch,
                                std::int64_t most_pages) const {
  const int all_keys = TailKeys(stream, branch.leaf);
  const int taken = forest_.TakenOver(branch.leaf);
  if (!stream.preempted) return std::min(all_keys, taken + 1);
  const std::int64_t least = taken + static_cast<std::int64_t>(stream.written.size());
  return static_cast<int>(
      std::clamp<std::int64_t>(all_keys, 0, std::max(most_pages * kPageTokens, least)));
}

bool StreamMemory::GiveRoom(Stream& stream, const Room& room) {
  FindPaths(stream);
  const std::vector<NodeId> nodes = PromptNodes(stream);
  std::int64_t missing = 0, path_pages = 0, tail_pages = 0;
  for (const NodeId node : nodes) {
    missing += cache_.MissingPages(node, Tokens(node));
    path_pages += PagesFor(Tokens(node));
  }
  const auto branches = static_cast<std::int64_t>(stream.branches.size());
  const std::int64_t most = room.least ? 0 : (cache_.total_pages() - path_pages) / branches;
  int cached = 0;
  for (const Branch& branch : stream.branches) {
    tail_pages += PagesFor(FirstTailKeys(stream, branch, most));
    for (const NodeId node : forest_.Path(branch.leaf)) {
      cached += cache_.filled(node) + beginnings_.Ready(node);
    }
  }
  const std::int64_t spare = stream.preempted ? 0 : room.spare;
  if (missing + tail_pages + spare > cache_.available_pages()) {
    for (const Branch& branch : stream.branches) cache_.Unpin(branch.leaf);
    stream.branches.clear();  // what was added for it went again
    return false;
  }
  for (const NodeId node : nodes) {
    BANYAN_CHECK(cache_.Reserve(node, Tokens(node)));
  }
  for (Branch& branch : stream.branches) {
    branch.tail = forest_.AddTail(branch.leaf);
    cache_.Pin(branch.tail);
    BANYAN_CHECK(cache_.Reserve(branch.tail, FirstTailKeys(stream, branch, most)));
    for (const TokenId token : stream.written) forest_.Append(branch.tail, token);
    cache_.Touch(branch.leaf);
  }
  if (stored_) stored_->Load(nodes);
  stream.written = {};
  if (!std::exchange(stream.began, true)) {
    stream.answer.cached_tokens = cached;
    prompt_tokens_ += stream.prompt_tokens;
  }
  return true;
}

}  // namespace banyan
