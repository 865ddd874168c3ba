#include "engine/running_streams.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan {

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
