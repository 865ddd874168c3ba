// Running streams → the end, or the line again. Tails get pages as they grow; when there are none,
// the stream that comes last gives its own back.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/admission.h"

namespace banyan {

bool Admission::Grow(Stream& stream) {
  while (!memory_.Grow(stream)) {
    const std::span<const StreamId> order = running_.order();
    // In order of rank, so none that has its row already is taken away.
    const auto last = std::find_if(order.rbegin(), order.rend(), [this](StreamId id) {
      return running_.Has(id) && !running_.at(id).preempted;
    });
    const auto together = [&stream](const Stream& other) {
      return &other == &stream || (stream.skeleton && other.skeleton == stream.skeleton);
    };
    const bool alone = std::ranges::all_of(
        order, [&](StreamId id) { return !running_.Has(id) || together(running_.at(id)); });
    if (last == order.rend() || alone) {
      EndForMemory(stream);
      return false;
    }
    Stream& victim = running_.at(*last);
    const bool itself = together(victim);
    Preempt(victim);
    if (itself) return false;
  }
  return true;
}

// The stream, or all values of its skeleton, cannot go on and never could.
void Admission::EndForMemory(Stream& stream) {
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  const std::vector<StreamId> ids = run ? run->members : std::vector{stream.id};
  for (const StreamId id : ids) {
    Stream& ending = running_.at(id);
    if (ending.ended) continue;
    deliveries_.AddEnds(
        ending, FinishReason::kError,
        fmt::format("KV memory is too small: the budget of {} pages of {} tokens was "
                    "full after {} tokens of the answer",
                    memory_.cache().total_pages(), kPageTokens, ending.answer.tokens.size()));
    Retire(ending);
  }
}

// The stream, with all values of its skeleton, waits again with the tokens it has; their keys will
// be computed anew.
void Admission::Preempt(Stream& stream) {
  no_room_ = true;
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  if (!run) return line_.Return(PutAside(stream.id));
  const std::vector<StreamId> members = std::exchange(run->members, {});
  for (auto id = members.rbegin(); id != members.rend(); ++id) {
    std::unique_ptr<Stream> value = PutAside(*id);
    if (value->ended) {
      run->parked.insert(run->parked.begin(), std::move(value));
    } else {
      line_.Return(std::move(value));
    }
  }
}

std::unique_ptr<Stream> Admission::PutAside(StreamId id) {
  std::unique_ptr<Stream> stream = running_.Remove(id);
  under_way_.Forget(*stream);
  memory_.PutAside(*stream);
  stream->preempted = true;
  ++preempted_;
  return stream;
}

void Admission::Retire(Stream& stream) {
  if (stream.skeleton) return RetireValue(stream);
  under_way_.Forget(stream);
  memory_.Release(*running_.Remove(stream.id));
  no_room_ = false;
}

// When it was the last of its skeleton that wrote, all of them go.
void Admission::RetireValue(Stream& stream) {
  under_way_.Forget(stream);
  running_.MarkEnded(stream);
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  for (const StreamId id : run->members) {
    if (!running_.at(id).ended) return;
  }
  for (auto id = run->members.rbegin(); id != run->members.rend(); ++id) {
    memory_.Release(*running_.Remove(*id));
  }
  run->members.clear();
  no_room_ = false;
}

void Admission::End(const std::shared_ptr<RequestTree>& request, std::int32_t index,
                    FinishReason reason, const std::string& why) {
  const RequestStream& declared = request->streams[static_cast<size_t>(index)];
  if (declared.over) return;
  if (declared.running.valid()) {
    Stream& stream = running_.at(declared.running);
    deliveries_.AddEnds(stream, reason, why);
    Retire(stream);
    return;
  }
  if (const std::unique_ptr<Stream> stream = line_.Remove(request, index)) {
    deliveries_.AddEnds(*stream, reason, why);
    no_room_ = false;  // somebody else may be the next in line now
  }
}

}  // namespace banyan
