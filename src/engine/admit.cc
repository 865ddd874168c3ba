// Waiting streams → running ones: the path is found or added, pinned, and given room for prompt and
// answer, so that a running stream never waits for memory.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/engine_state.h"

namespace banyan {
namespace {

std::int64_t PagesFor(size_t tokens) {
  return (static_cast<std::int64_t>(tokens) + kPageTokens - 1) / kPageTokens;
}

}  // namespace

void Engine::State::Admit() {
  while (!waiting_.empty() && !no_room_ && static_cast<int>(running_.size()) < max_streams_) {
    Stream& next = *waiting_.front();
    if (options_.strategy == Strategy::kStacked && !running_.empty()) {
      std::set<int> stacks = {next.stack};
      for (const StreamId id : running_) stacks.insert(at(id).stack);
      if (static_cast<int>(stacks.size()) > options_.stacks) return;
    }
    if (!TryAdmit(next)) {
      if (!running_.empty()) {
        no_room_ = true;
        return;
      }
      std::int64_t needed = 0;
      for (const TokensRef& segment : next.segments) needed += PagesFor(segment->size());
      Fail(next, fmt::format("KV memory is too small: the prompt alone needs {} pages of {} tokens "
                             "and its answer more, the budget has {} pages",
                             needed, kPageTokens, cache_.total_pages()));
      waiting_.pop_front();
      continue;
    }
    StreamId id;
    if (free_ids_.empty()) {
      id = StreamId(static_cast<std::int32_t>(streams_.size()));
      streams_.emplace_back();
    } else {
      id = free_ids_.back();
      free_ids_.pop_back();
    }
    next.id = id;
    next.state = Stream::State::kPrefill;
    streams_[id.index()] = std::move(waiting_.front());
    waiting_.pop_front();
    receipt_.prompt_tokens += at(id).prompt_tokens;
    running_.push_back(id);
  }
}

bool Engine::State::TryAdmit(Stream& stream) {
  const bool share = options_.strategy != Strategy::kFlat;
  // Every node is pinned until the stream holds its leaf, so that making room for one does not take
  // another away.
  std::vector<NodeId> held;
  std::vector<NodeSplit> splits;
  NodeId node;
  bool fits = true;
  for (const TokensRef& tokens : stream.segments) {
    Forest::Segment segment;
    segment.tokens = *tokens;
    segment.share = share;
    node = forest_.AddSegment(node, segment, splits);
    for (const NodeSplit& split : splits) cache_.Split(split);
    splits.clear();
    forest_.Pin(node);
    held.push_back(node);
  }
  for (const NodeId on_path : forest_.Path(node)) {
    fits = fits && cache_.Reserve(on_path, static_cast<int>(forest_.at(on_path).tokens.size()));
  }
  std::int64_t answer_tokens = 0;
  for (const AnswerRequest& wanted : stream.wanted) {
    answer_tokens +=
        wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
  }
  const std::int64_t room = config_.context_length - stream.prompt_tokens;
  const int answer_keys = static_cast<int>(std::clamp<std::int64_t>(answer_tokens, 0, room));
  if (fits) {
    stream.tail = forest_.AddTail(node);
    forest_.Pin(stream.tail);
    // The last token is never fed, and a stream of one token has no row in its tail.
    const int tail_keys = answer_keys > 1 ? forest_.TakenOver(node) + answer_keys - 1 : 0;
    fits = cache_.Reserve(stream.tail, tail_keys);
    if (!fits) {
      forest_.Unpin(stream.tail);
      cache_.Drop(stream.tail);
    }
  }
  if (fits) {
    stream.leaf = node;
    forest_.Pin(node);
    cache_.Touch(node);
  }
  for (const NodeId id : held) forest_.Unpin(id);
  if (!fits) {
    // What was added and nobody else uses goes again, leaf first.
    while (node.valid() && forest_.Removable(node) && cache_.filled(node) == 0) {
      const NodeId parent = forest_.at(node).parent;
      cache_.Drop(node);
      node = parent;
    }
  }
  return fits;
}

void Engine::State::Fail(Stream& stream, const std::string& why) {
  for (const AnswerRequest& wanted : stream.wanted) {
    Answer answer;
    answer.tag = wanted.tag;
    answer.finish = FinishReason::kError;
    answer.error = why;
    finished_.push_back(std::move(answer));
    ++receipt_.failed;
  }
}

}  // namespace banyan
