// Admission in order of rank, the values of a skeleton together; growth of tails, preemption and
// retirement.
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/schedule/admission_preemption.h"

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

std::string WhyTooLarge(const Stream& stream, const StreamMemory& memory) {
  const KvCache& cache = memory.cache();
  std::string why = fmt::format(
      "KV memory is too small: the prompt alone needs {} pages of {} tokens and its answer more, "
      "the budget has {} pages",
      PromptPages(stream), kPageTokens, cache.pool().total());
  if (!cache.slots().any()) return why;
  return why +
         fmt::format(", and {} slots for the states after the prompt's texts and of {} answers",
                     cache.slots().total(), stream.request->BranchesOf(stream.declared()));
}

}  // namespace

Admission::Admission(const EngineOptions& options, int max_streams, const Parts& parts)
    : strategy_(options.strategy),
      one_by_one_(options.one_by_one),
      most_stacks_(options.stacks),
      max_streams_(max_streams),
      memory_(parts.memory),
      in_flight_(parts.in_flight),
      events_(parts.events),
      stacks_(options) {}

void Admission::Add(const std::shared_ptr<RequestTree>& request) {
  if (request->streams.empty()) return;
  if (strategy_ == Strategy::kStacked) stacks_.Number(*request);
  waiting_.Add(request);
  try {
    events_.Open(request);
  } catch (...) {
    waiting_.TakeBack(*request);
    throw;
  }
}

Stream* Admission::Find(const std::shared_ptr<RequestTree>& request, std::int32_t index) const {
  const StreamId running = request->streams[static_cast<size_t>(index)].running;
  return running.valid() ? &running_.at(running) : waiting_.Returned(*request, index);
}

void Admission::Admit() {
  if (running_.empty()) head_blocked_ = exclusive_ = false;
  while (!waiting_.empty() && !head_blocked_ && PlaceForNext()) {
    Streams next = TakeNext();
    if (strategy_ == Strategy::kStacked && !StackFits(*next.front())) {
      return Requeue(std::move(next));
    }
    if (one_by_one_) memory_.EvictCached();
    if (Allocate(next)) {
      for (std::unique_ptr<Stream>& stream : next) Begin(std::move(stream));
    } else if (running_.empty()) {
      for (const std::unique_ptr<Stream>& stream : next) {
        if (stream->ended) continue;
        events_.AddEnds(*stream, FinishReason::kError, WhyTooLarge(*stream, memory_));
      }
    } else {
      head_blocked_ = true;
      Requeue(std::move(next));
    }
  }
}

// The values of one skeleton are admitted together. If they, or the branches of one stream, are
// more than max_streams, they run alone.
bool Admission::PlaceForNext() const {
  const auto [request, index] = waiting_.Next();
  const RequestStream& next = request->streams[static_cast<size_t>(index)];
  int branches = request->BranchesOf(next);
  if (next.skeleton >= 0) {
    const RequestSkeleton& values = request->skeletons[static_cast<size_t>(next.skeleton)];
    branches *= values.end - values.first;  // all values have as many
  }
  return running_.empty() ||
         (!exclusive_ && running_.writing_branches() + branches <= max_streams_);
}

// The first waiting stream, or all values of the skeleton that it belongs to, in order. Of a
// skeleton that was preempted, also the ended values that another one comes after.
Admission::Streams Admission::TakeNext() {
  Streams streams;
  streams.push_back(waiting_.Take());
  const RequestTree* const request = streams.front()->request.get();
  const std::int32_t skeleton = streams.front()->declared().skeleton;
  if (skeleton < 0) return streams;
  while (!waiting_.empty()) {
    const auto [next, index] = waiting_.Next();
    const bool with_them =
        next == request && next->streams[static_cast<size_t>(index)].skeleton == skeleton;
    if (!with_them) break;
    streams.push_back(waiting_.Take());
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

void Admission::Requeue(Streams streams) {
  for (std::unique_ptr<Stream>& stream : streams) {
    if (stream->ended) {
      stream->skeleton->parked.push_back(std::move(stream));
    } else {
      waiting_.Return(std::move(stream));
    }
  }
}

bool Admission::StackFits(const Stream& next) const {
  if (running_.empty()) return true;
  std::set<int> stacks = {next.declared().stack};
  for (const StreamId id : running_.order()) stacks.insert(running_.at(id).declared().stack);
  return static_cast<int>(stacks.size()) <= most_stacks_;
}

bool Admission::Allocate(Streams& streams) {
  // A spare page for each branch that may need one next, so that an admitted stream is not
  // preempted at once.
  std::int64_t spare = 0;
  for (const StreamId id : running_.order()) {
    const Stream& stream = running_.at(id);
    spare += stream.preempted ? 0 : static_cast<std::int64_t>(stream.branches.size());
  }
  if (strategy_ == Strategy::kFlat && streams.size() > 1) {
    // The path is private to this skeleton and shared by its values.
    memory_.ForgetPaths(*streams.back());
  }
  if (AllocateAll(streams, spare, /*least=*/false)) return true;
  // Together the values may need more pages than there are, but perhaps will not.
  if (streams.size() == 1 || !running_.empty()) return false;
  exclusive_ = AllocateAll(streams, 0, /*least=*/true);
  return exclusive_;
}

// All or none.
bool Admission::AllocateAll(Streams& streams, std::int64_t spare, bool least) {
  for (size_t i = 0; i < streams.size(); ++i) {
    if (memory_.Allocate(*streams[i], {least ? 0 : spare, least})) {
      spare += static_cast<std::int64_t>(streams[i]->branches.size());
      continue;
    }
    while (i-- > 0) memory_.Preempt(*streams[i]);
    return false;
  }
  return true;
}

void Admission::Begin(std::unique_ptr<Stream> stream) {
  Stream& begun = running_.Add(std::move(stream));
  if (begun.skeleton) begun.skeleton->members.push_back(begun.id);
}

bool Admission::Grow(Stream& stream) {
  while (!memory_.Grow(stream)) {
    const std::span<const StreamId> order = running_.order();
    // The lowest rank. Streams get their rows in order of rank, so it has none in this step yet.
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

// The stream, or all values of its skeleton, need more memory than there is.
void Admission::EndForMemory(Stream& stream) {
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  const std::vector<StreamId> ids = run ? run->members : std::vector{stream.id};
  for (const StreamId id : ids) {
    Stream& ending = running_.at(id);
    if (ending.ended) continue;
    events_.AddEnds(
        ending, FinishReason::kError,
        fmt::format("KV memory is too small: the budget of {} pages of {} tokens was "
                    "full after {} tokens of the answer",
                    memory_.cache().pool().total(), kPageTokens, ending.answer.tokens.size()));
    Retire(ending);
  }
}

// The stream, with all values of its skeleton, waits again with the tokens it has; their keys are
// recomputed later.
void Admission::Preempt(Stream& stream) {
  head_blocked_ = true;
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  if (!run) return waiting_.Return(TakeBack(stream.id));
  const std::vector<StreamId> members = std::exchange(run->members, {});
  for (auto id = members.rbegin(); id != members.rend(); ++id) {
    std::unique_ptr<Stream> value = TakeBack(*id);
    if (value->ended) {
      run->parked.insert(run->parked.begin(), std::move(value));
    } else {
      waiting_.Return(std::move(value));
    }
  }
}

std::unique_ptr<Stream> Admission::TakeBack(StreamId id) {
  std::unique_ptr<Stream> stream = running_.Remove(id);
  in_flight_.Forget(*stream);
  memory_.Preempt(*stream);
  stream->preempted = true;
  ++preempted_;
  return stream;
}

void Admission::Retire(Stream& stream) {
  if (stream.skeleton) return RetireValue(stream);
  in_flight_.Forget(stream);
  memory_.Release(*running_.Remove(stream.id));
  head_blocked_ = false;
}

// All values are freed when the last one that wrote has ended.
void Admission::RetireValue(Stream& stream) {
  in_flight_.Forget(stream);
  running_.MarkEnded(stream);
  const std::shared_ptr<SkeletonRun> run = stream.skeleton;
  for (const StreamId id : run->members) {
    if (!running_.at(id).ended) return;
  }
  for (auto id = run->members.rbegin(); id != run->members.rend(); ++id) {
    memory_.Release(*running_.Remove(*id));
  }
  run->members.clear();
  head_blocked_ = false;
}

void Admission::End(const std::shared_ptr<RequestTree>& request, std::int32_t index,
                    FinishReason reason, const std::string& why) {
  const RequestStream& declared = request->streams[static_cast<size_t>(index)];
  if (declared.over) return;
  if (declared.running.valid()) {
    Stream& stream = running_.at(declared.running);
    events_.AddEnds(stream, reason, why);
    Retire(stream);
    return;
  }
  if (const std::unique_ptr<Stream> stream = waiting_.Remove(request, index)) {
    events_.AddEnds(*stream, reason, why);
    head_blocked_ = false;  // another stream may be the next one now
  }
}

}  // namespace banyan
