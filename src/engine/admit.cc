// Waiting streams → running ones, in order of rank: values of a skeleton together, others one by
// one, as far as there is place. What each gets is in find_room.cc.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/core.h"
#include "engine/skeleton_run.h"

namespace banyan {
namespace {

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

// Values of one skeleton are let in together. They, or the branches of one stream, may be more than
// otherwise run at once: then alone.
bool EngineCore::PlaceForNext() const {
  const auto [request, index] = line_.Next();
  const RequestStream& next = request->streams[static_cast<size_t>(index)];
  int branches = request->BranchesOf(next);
  if (next.skeleton >= 0) {
    const RequestSkeleton& values = request->skeletons[static_cast<size_t>(next.skeleton)];
    branches *= values.end - values.first;  // all values have as many
  }
  const int writing = running_branches_ - ended_branches_;
  return running_.empty() || (!nobody_else_ && writing + branches <= max_streams_);
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
    for (const std::int32_t leaf : request.LeavesOf(streams.back()->declared())) {
      for (const std::int32_t index : request.PathTo(leaf)) {
        request.segments[static_cast<size_t>(index)].node = NodeMemory();
      }
    }
  }
  const auto admit = [&](bool least_room) {
    std::int64_t others = spare;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (TryAdmit(*streams[i], least_room ? 0 : others, least_room)) {
        others += static_cast<std::int64_t>(streams[i]->branches.size());
        continue;
      }
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
    ended_branches_ += static_cast<int>(at(id).branches.size());
  }
  at(id).skeleton->members.push_back(id);
}

}  // namespace banyan
