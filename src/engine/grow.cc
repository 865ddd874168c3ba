// Memory on demand: tails get pages as they grow; when there are none, the stream that comes last
// gives its own back.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"
#include "engine/skeleton_run.h"

namespace banyan {

// Room for the stream's next rows. False: it is not running any more.
bool EngineCore::GrowTail(Stream& stream) {
  const auto reserve = [&] {
    return std::ranges::all_of(stream.branches, [&](const Branch& branch) {
      const auto tokens = static_cast<int>(forest_.at(branch.tail).tokens.size());
      return cache_.Reserve(branch.tail, tokens + stream.tokens_under_way);
    });
  };
  while (!reserve()) {
    // Running streams are in order of rank, so none that has its row already is taken away.
    const auto last = std::find_if(running_.rbegin(), running_.rend(),
                                   [this](StreamId id) { return Alive(id) && !at(id).preempted; });
    const auto together = [&stream](const Stream& other) {
      return &other == &stream || (stream.skeleton && other.skeleton == stream.skeleton);
    };
    const bool alone =
        std::ranges::all_of(running_, [&](StreamId id) { return !Alive(id) || together(at(id)); });
    if (last == running_.rend() || alone) {
      EndForMemory(stream);
      return false;
    }
    Stream& victim = at(*last);
    const bool itself = together(victim);
    Preempt(victim);
    if (itself) return false;
  }
  return true;
}

// The stream, or all values of its skeleton, cannot go on and never could.
void EngineCore::EndForMemory(Stream& stream) {
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  const std::vector<StreamId> ids = run ? run->members : std::vector{stream.id};
  for (const StreamId id : ids) {
    Stream& ending = at(id);
    if (ending.ended) continue;
    DeliverEnds(ending, FinishReason::kError,
                fmt::format("KV memory is too small: the budget of {} pages of {} tokens was "
                            "full after {} tokens of the answer",
                            cache_.total_pages(), kPageTokens, ending.answer.tokens.size()));
    Retire(ending);
  }
}

// The stream, with all values of its skeleton, waits again with the tokens it has; their keys will
// be computed anew.
void EngineCore::Preempt(Stream& stream) {
  if (stream.skeleton) {
    PreemptSkeleton(stream.skeleton);
  } else {
    line_.Return(PutAside(stream));
  }
  no_room_ = true;
}

std::unique_ptr<Stream> EngineCore::PutAside(Stream& stream) {
  ForgetUnderWay(stream);
  StopWriting(stream);
  stream.preempted = true;
  stream.state = Stream::State::kWaiting;
  ++receipt_.preempted;
  const StreamId id = std::exchange(stream.id, StreamId());
  stream.declared().running = StreamId();
  return std::move(streams_[id.index()]);
}

// Gives back what the stream holds, and keeps its tokens.
void EngineCore::StopWriting(Stream& stream) {
  const std::vector<TokenId>& tokens = forest_.at(stream.lead().tail).tokens;
  stream.written.assign(tokens.begin() + forest_.TakenOver(stream.lead().leaf), tokens.end());
  LetGo(stream);
}

// Gives back what the stream holds. Its tails are of no use to anyone (a row under way writes to
// their pages before anyone else can); the prompt stays cached until its pages are needed.
void EngineCore::LetGo(Stream& stream) {
  for (const Branch& branch : stream.branches) cache_.DropPinned(branch.tail);
  for (const Branch& branch : stream.branches) {
    cache_.Touch(branch.leaf);
    cache_.Unpin(branch.leaf);
    // Private: nobody will ask for it again.
    if (options_.strategy == Strategy::kFlat) cache_.DropUnused(branch.leaf);
  }
  running_branches_ -= static_cast<int>(stream.branches.size());
  stream.branches.clear();
}

}  // namespace banyan
