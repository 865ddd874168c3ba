#include "engine/request/stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {

void WaitingQueue::Add(const std::shared_ptr<RequestTree>& request) {
  if (request->streams.empty()) return;
  fresh_.emplace(std::pair(-request->priority, request->id), FreshRequest{request, 0});
  streams_ += static_cast<std::int64_t>(request->streams.size());
  tokens_ += request->tokens;
}

void WaitingQueue::TakeBack(const RequestTree& request) {
  if (fresh_.erase({-request.priority, request.id}) == 0) return;
  streams_ -= static_cast<std::int64_t>(request.streams.size());
  tokens_ -= request.tokens;
}

Stream* WaitingQueue::Returned(const RequestTree& request, std::int32_t index) const {
  const auto found = returned_.find(Rank(-request.priority, request.id, index));
  return found == returned_.end() ? nullptr : found->second.get();
}

void WaitingQueue::Return(std::unique_ptr<Stream> stream) {
  ++streams_;
  const Rank rank = stream->rank();
  BANYAN_CHECK(returned_.emplace(rank, std::move(stream)).second);
}

std::unique_ptr<Stream> MakeStream(const std::shared_ptr<RequestTree>& request,
                                   std::int32_t index) {
  const RequestStream& declared = request->streams[static_cast<size_t>(index)];
  auto stream = std::make_unique<Stream>();
  stream->request = request;
  stream->index = index;
  stream->answer_index = declared.first_answer + declared.ended;
  stream->end_answer = declared.end_answer;
  stream->prompt_tokens = request->PromptTokens(declared);
  return stream;
}

// Skips streams that are over; removes a request that has no others.
void WaitingQueue::Settle(FreshMap::iterator at) {
  FreshRequest& fresh = at->second;
  const std::vector<RequestStream>& streams = fresh.request->streams;
  while (fresh.next < static_cast<std::int32_t>(streams.size()) &&
         streams[static_cast<size_t>(fresh.next)].over) {
    ++fresh.next;
  }
  if (fresh.next < static_cast<std::int32_t>(streams.size())) return;
  tokens_ -= fresh.request->tokens;
  fresh_.erase(at);
}

bool WaitingQueue::NextHasReturned() const {
  BANYAN_CHECK(!empty());
  const auto fresh = fresh_.begin();
  const auto returned = returned_.begin();
  return returned != returned_.end() &&
         (fresh == fresh_.end() ||
          returned->first < Rank(fresh->first.first, fresh->first.second, fresh->second.next));
}

std::pair<const RequestTree*, std::int32_t> WaitingQueue::Next() const {
  if (NextHasReturned()) {
    const Stream& stream = *returned_.begin()->second;
    return {stream.request.get(), stream.index};
  }
  return {fresh_.begin()->second.request.get(), fresh_.begin()->second.next};
}

std::unique_ptr<Stream> WaitingQueue::Take() {
  const bool take_returned = NextHasReturned();
  --streams_;
  if (take_returned) return std::move(returned_.extract(returned_.begin()).mapped());
  const auto fresh = fresh_.begin();
  std::unique_ptr<Stream> stream = MakeStream(fresh->second.request, fresh->second.next);
  ++fresh->second.next;
  Settle(fresh);
  return stream;
}

std::unique_ptr<Stream> WaitingQueue::Remove(const std::shared_ptr<RequestTree>& request,
                                             std::int32_t index) {
  if (const auto node = returned_.extract(Rank(-request->priority, request->id, index))) {
    --streams_;
    return std::move(node.mapped());
  }
  const auto at = fresh_.find({-request->priority, request->id});
  RequestStream& declared = request->streams[static_cast<size_t>(index)];
  if (at == fresh_.end() || index < at->second.next || declared.over) return nullptr;
  --streams_;
  std::unique_ptr<Stream> stream = MakeStream(request, index);
  declared.over = true;
  Settle(at);
  return stream;
}

std::vector<std::pair<const RequestTree*, std::int32_t>> WaitingQueue::Fresh() const {
  std::vector<std::pair<const RequestTree*, std::int32_t>> streams;
  for (const auto& [key, fresh] : fresh_) {
    const auto count = static_cast<std::int32_t>(fresh.request->streams.size());
    for (std::int32_t i = fresh.next; i < count; ++i) {
      if (!fresh.request->streams[static_cast<size_t>(i)].over) {
        streams.emplace_back(fresh.request.get(), i);
      }
    }
  }
  return streams;
}

void RunningStreams::Count(const Stream& stream, int sign) {
  if (stream.ended) return;
  writing_ += sign;
  writing_branches_ += sign * static_cast<int>(stream.branches.size());
}

Stream& RunningStreams::Add(std::unique_ptr<Stream> added) {
  StreamId id;
  if (free_ids_.empty()) {
    id = StreamId(static_cast<std::int32_t>(streams_.size()));
    streams_.emplace_back();
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  streams_[id.index()] = std::move(added);
  Stream& stream = at(id);
  stream.id = id;
  stream.state = Stream::State::kPrefill;
  if (!stream.ended) stream.declared().running = id;
  Count(stream, 1);
  const auto place = std::ranges::upper_bound(order_, stream.rank(), {},
                                              [this](StreamId other) { return at(other).rank(); });
  order_.insert(place, id);
  return stream;
}

std::unique_ptr<Stream> RunningStreams::Remove(StreamId id) {
  std::unique_ptr<Stream> stream = std::move(streams_[id.index()]);
  Count(*stream, -1);
  stream->id = StreamId();
  stream->state = Stream::State::kWaiting;
  stream->declared().running = StreamId();
  return stream;
}

void RunningStreams::MarkEnded(Stream& stream) {
  Count(stream, -1);
  stream.ended = true;
  stream.declared().running = StreamId();
}

void RunningStreams::ForgetRemoved() {
  std::erase_if(order_, [this](StreamId id) {
    if (Has(id)) return false;
    free_ids_.push_back(id);
    return true;
  });
}

void RunningStreams::CheckInvariants() const {
  int writing = 0, branches = 0;
  const Stream* before = nullptr;
  for (const StreamId id : order_) {
    if (!Has(id)) continue;
    const Stream& stream = at(id);
    BANYAN_CHECK(stream.id == id);
    BANYAN_CHECK(before == nullptr || before->rank() < stream.rank());
    before = &stream;
    BANYAN_CHECK(stream.declared().running == (stream.ended ? StreamId() : id));
    if (stream.ended) continue;
    ++writing;
    branches += static_cast<int>(stream.branches.size());
  }
  BANYAN_CHECK(writing == writing_ && branches == writing_branches_);
  BANYAN_CHECK(order_.size() + free_ids_.size() == streams_.size());
}

}  // namespace banyan
