#include "engine/waiting_line.h"

#include "base/error.h"

namespace banyan {

void WaitingLine::Add(std::shared_ptr<RequestTree> request) {
  if (request->streams.empty()) return;
  streams_ += static_cast<std::int64_t>(request->streams.size());
  tokens_ += request->tokens;
  const std::pair key(-request->priority, request->id);
  fresh_.emplace(key, FreshRequest{std::move(request), 0});
}

void WaitingLine::Return(std::unique_ptr<Stream> stream) {
  ++streams_;
  const Rank rank = stream->rank();
  BANYAN_CHECK(returned_.emplace(rank, std::move(stream)).second);
}

std::unique_ptr<Stream> WaitingLine::MakeStream(const std::shared_ptr<RequestTree>& request,
                                                std::int32_t index) {
  const RequestStream& declared = request->streams[static_cast<size_t>(index)];
  auto stream = std::make_unique<Stream>();
  stream->request = request;
  stream->index = index;
  stream->answer_index = declared.first_answer;
  stream->end_answer = declared.end_answer;
  stream->prompt_tokens = request->PromptTokens(declared);
  return stream;
}

// Steps over streams that are not wanted any more; a request without others leaves the line.
void WaitingLine::Settle(FreshMap::iterator at) {
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

bool WaitingLine::NextHasReturned() const {
  BANYAN_CHECK(!empty());
  const auto fresh = fresh_.begin();
  const auto returned = returned_.begin();
  return returned != returned_.end() &&
         (fresh == fresh_.end() ||
          returned->first < Rank(fresh->first.first, fresh->first.second, fresh->second.next));
}

std::pair<const RequestTree*, std::int32_t> WaitingLine::Next() const {
  if (NextHasReturned()) {
    const Stream& stream = *returned_.begin()->second;
    return {stream.request.get(), stream.index};
  }
  return {fresh_.begin()->second.request.get(), fresh_.begin()->second.next};
}

std::unique_ptr<Stream> WaitingLine::Take() {
  const bool take_returned = NextHasReturned();
  --streams_;
  if (take_returned) return std::move(returned_.extract(returned_.begin()).mapped());
  const auto fresh = fresh_.begin();
  std::unique_ptr<Stream> stream = MakeStream(fresh->second.request, fresh->second.next);
  ++fresh->second.next;
  Settle(fresh);
  return stream;
}

std::unique_ptr<Stream> WaitingLine::Remove(const std::shared_ptr<RequestTree>& request,
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

std::vector<std::pair<const RequestTree*, std::int32_t>> WaitingLine::Fresh() const {
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

}  // namespace banyan
