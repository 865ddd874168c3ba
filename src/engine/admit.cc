// Waiting streams → running ones: the path is found or added, pinned, and given room for the prompt
// and the first token; a stream that was preempted gets room for all that it can still need.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/core.h"
#include "engine/skeleton_run.h"

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
  if (running_.empty()) no_room_ = nobody_else_ = false;
  while (!line_.empty() && !no_room_ && PlaceForNext()) {
    std::vector<std::unique_ptr<Stream>> next = TakeNext();
    if (options_.strategy == Strategy::kStacked && !StackFits(*next.front())) {
      return Return(std::move(next));
    }
    if (options_.one_by_one) cache_.EvictAll();
    if (TryAdmitAll(next)) {
      for (std::unique_ptr<Stream>& stream : next) Begin(std::move(stream));
    } else if (running_.empty()) {
      for (const std::unique_ptr<Stream>& stream : next) {
        if (stream->ended) continue;
        DeliverEnds(*stream, FinishReason::kError,
                    fmt::format("KV memory is too small: the prompt alone needs {} pages of {} "
                                "tokens and its answer more, the budget has {} pages",
                                PromptPages(*stream), kPageTokens, cache_.total_pages()));
      }
    } else {
      no_room_ = true;
      Return(std::move(next));
    }
  }
}

// A stream alone may have more branches than otherwise run at once. Values of one skeleton are let
// in together.
bool EngineCore::PlaceForNext() const {
  const auto [request, index] = line_.Next();
  const RequestStream& next = request->streams[static_cast<size_t>(index)];
  int branches = request->BranchesOf(next);
  if (next.skeleton >= 0) {
    const RequestSkeleton& values = request->skeletons[static_cast<size_t>(next.skeleton)];
    branches = values.end - values.first;
  }
  const int taken = running_branches_ - ended_values_;
  return running_.empty() || (!nobody_else_ && taken + branches <= max_streams_);
}

// The first in line, or all values of the skeleton that it belongs to, in order; of one that runs
// again also those that have ended, as far as another comes after them.
std::vector<std::unique_ptr<Stream>> EngineCore::TakeNext() {
  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(line_.Take());
  const RequestTree* const request = streams.front()->request.get();
  const std::int32_t skeleton = streams.front()->declared().skeleton;
  if (skeleton < 0) return streams;
  while (!line_.empty()) {
    const auto [next, index] = line_.Next();
    const bool with_them =
        next == request && next->streams[static_cast<size_t>(index)].skeleton == skeleton;
    if (!with_them) break;
    streams.push_back(line_.Take());
  }
  std::shared_ptr<SkeletonRun> run = streams.front()->skeleton;
  if (!run) run = std::make_shared<SkeletonRun>();
  for (std::unique_ptr<Stream>& stream : streams) stream->skeleton = run;
  const std::int32_t last = streams.back()->index;
  for (std::unique_ptr<Stream>& ended : run->parked) {
    if (ended->index < last) streams.push_back(std::move(ended));
  }
  run->parked.clear();
  std::ranges::sort(streams, {}, [](const auto& stream) { return stream->index; });
  return streams;
}

void EngineCore::Return(std::vector<std::unique_ptr<Stream>> streams) {
  for (std::unique_ptr<Stream>& stream : streams) {
    if (stream->ended) {
      stream->skeleton->parked.push_back(std::move(stream));
    } else {
      line_.Return(std::move(stream));
    }
  }
}

// All or none.
bool EngineCore::TryAdmitAll(std::vector<std::unique_ptr<Stream>>& streams) {
  // A page for each of those that may want one next, so that not everyone who is let in has to
  // leave again.
  std::int64_t spare = 0;
  for (const StreamId id : running_) {
    spare += at(id).preempted ? 0 : static_cast<std::int64_t>(at(id).branches.size());
  }
  if (options_.strategy == Strategy::kFlat && streams.size() > 1) {
    // Private to this skeleton, and one for all of its values.
    RequestTree& request = *streams.front()->request;
    for (const std::int32_t index : request.PathTo(streams.back()->declared().leaf)) {
      request.segments[static_cast<size_t>(index)].node = NodeMemory();
    }
  }
  const auto admit = [&](bool least_room) {
    for (size_t i = 0; i < streams.size(); ++i) {
      const std::int64_t others = spare + static_cast<std::int64_t>(i);
      if (TryAdmit(*streams[i], {least_room ? 0 : others, least_room})) continue;
      while (i-- > 0) StopWriting(*streams[i]);
      return false;
    }
    return true;
  };
  if (admit(false)) return true;
  // Values that together may need more than there is, but perhaps will not.
  if (streams.size() == 1 || !running_.empty()) return false;
  nobody_else_ = admit(true);
  return nobody_else_;
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
  const bool remember = share || stream.declared().skeleton >= 0;
  std::vector<RequestSegment>& segments = stream.request->segments;
  const std::vector<std::int32_t> path = stream.request->PathTo(leaf_segment);
  NodeId node;
  size_t next = path.size();
  while (next > 0 && !node.valid()) {
    const RequestSegment& segment = segments[static_cast<size_t>(path[next - 1])];
    if (remember && forest_.Exists(segment.node)) {
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
    if (remember) segment.node = forest_.Remember(node);
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
int EngineCore::FirstTailKeys(const Stream& stream, const Branch& branch, std::int64_t path_pages,
                              bool least_room) const {
  const int all_keys = TailKeys(stream, branch.leaf);
  const int taken = forest_.TakenOver(branch.leaf);
  if (!stream.preempted) return std::min(all_keys, taken + 1);
  // All that it can need, or all there is: then it runs alone, as far as it gets.
  const auto branches = static_cast<std::int64_t>(stream.branches.size());
  const std::int64_t most = (cache_.total_pages() - path_pages) / branches * kPageTokens;
  const std::int64_t least = taken + static_cast<std::int64_t>(stream.written.size());
  const std::int64_t room = least_room ? least : std::max(most, least);
  return static_cast<int>(std::clamp<std::int64_t>(all_keys, 0, room));
}

bool EngineCore::TryAdmit(Stream& stream, const Room& room) {
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
    tail_pages += PagesFor(FirstTailKeys(stream, branch, path_pages, room.least));
    for (const NodeId node : forest_.Path(branch.leaf)) cached += cache_.filled(node);
  }
  const std::int64_t spare = stream.preempted ? 0 : room.spare;
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
    BANYAN_CHECK(
        cache_.Reserve(branch.tail, FirstTailKeys(stream, branch, path_pages, room.least)));
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
  if (at(id).declared().skeleton < 0) return;
  if (at(id).ended) {
    at(id).declared().running = StreamId();
    ++ended_values_;
  }
  at(id).skeleton->members.push_back(id);
}

}  // namespace banyan
