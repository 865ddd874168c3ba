// Making events of answers, and the queue in which they wait for the caller (banyan/answer.h).
#include "engine/request/answer_events.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "banyan/answer.h"

namespace banyan {
namespace {

double Seconds(RequestTree::Clock::time_point from, RequestTree::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

AnswerEvent EventOf(const Stream& stream) {
  AnswerEvent event;
  event.request = stream.request->id;
  event.tag = stream.wanted().tag;
  event.number = stream.request->first_number + static_cast<std::uint64_t>(stream.answer_index);
  return event;
}

// So that so many more elements take no memory, whose growth is that of single ones.
template <typename T>
void MakeRoom(size_t more, std::vector<T>& in) {
  if (in.capacity() - in.size() < more) in.reserve(std::max(in.size() + more, 2 * in.size()));
}

template <typename T>
void Append(std::vector<T>& more, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Appends the later event of an answer to the earlier one. Throws std::bad_alloc, and nothing has
// changed.
void Join(AnswerEvent& later, AnswerEvent& earlier) {
  MakeRoom(later.tokens.size(), earlier.tokens);
  MakeRoom(later.logprobs.size(), earlier.logprobs);
  MakeRoom(later.top.size(), earlier.top);
  earlier.text += later.text;
  Append(later.tokens, earlier.tokens);
  Append(later.logprobs, earlier.logprobs);
  Append(later.top, earlier.top);
  earlier.ended = later.ended;
  earlier.answer = std::move(later.answer);
}

}  // namespace

void AnswerEvents::Open(const std::shared_ptr<RequestTree>& request) {
  open_.emplace(request->id, request);
  streams_ += static_cast<std::int64_t>(request->streams.size());
}

std::shared_ptr<RequestTree> AnswerEvents::Find(RequestId id) const {
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<RequestTree>> AnswerEvents::OpenRequests() const {
  std::vector<std::shared_ptr<RequestTree>> all;
  for (const auto& [id, request] : open_) all.push_back(request);
  std::ranges::sort(all, {}, [](const auto& request) { return request->id; });
  return all;
}

void AnswerEvents::AddToken(Stream& stream) {
  ++tokens_;
  const auto now = RequestTree::Clock::now();
  Answer& answer = stream.answer;
  if (answer.tokens.size() == 1) {
    answer.first_token_seconds = Seconds(stream.request->submitted, now);
    latencies_.first_token.Add(answer.first_token_seconds);
  } else {
    latencies_.next_token.Add(Seconds(stream.last_token, now));
  }
  stream.last_token = now;
  if (!stream.wanted().stream) return;
  AnswerEvent event = EventOf(stream);
  event.tokens = {answer.tokens.back()};
  event.logprobs = {answer.logprobs.back()};
  if (!answer.top.empty()) event.top = {answer.top.back()};
  if (stream.text) event.text = stream.text->TakeShowable();
  pending_.emplace_back(stream.request->queue, std::move(event));
}

// What may throw comes before the first change that cannot be made twice.
void AnswerEvents::AddEnd(Stream& stream, FinishReason reason, const std::string& why) {
  const AnswerRequest& wanted = stream.wanted();
  Answer& answer = stream.answer;
  answer.error = why;
  if (stream.text) answer.text = stream.text->Finish();
  MakeRoom(1, pending_);
  AnswerEvent event = EventOf(stream);
  if (stream.text && wanted.stream) event.text = stream.text->TakeShowable();
  event.ended = true;
  answer.tag = wanted.tag;
  answer.finish = reason;
  answer.prompt_tokens = stream.prompt_tokens;
  answer.seconds = Seconds(stream.request->submitted, RequestTree::Clock::now());
  failed_ += reason == FinishReason::kError ? 1 : 0;
  cancelled_ += reason == FinishReason::kCancelled ? 1 : 0;
  event.answer = std::move(answer);
  pending_.emplace_back(stream.request->queue, std::move(event));
  stream.answer = Answer();
  stream.text.reset();
  stream.constraint.reset();
  stream.allowed.reset();
  stream.turns.reset();
  ++stream.answer_index;
  ++stream.declared().ended;
}

void AnswerEvents::AddEnds(Stream& stream, FinishReason reason, const std::string& why) {
  while (stream.answer_index < stream.end_answer) AddEnd(stream, reason, why);
  stream.declared().over = true;
  if (--stream.request->streams_left == 0) open_.erase(stream.request->id);
}

void AnswerEvents::Report(Receipt& receipt) const {
  receipt.streams = streams_;
  receipt.generated_tokens = tokens_;
  receipt.failed = failed_;
  receipt.cancelled = cancelled_;
  latencies_.Report(receipt);
}

void Latencies::Add(const Latencies& others) {
  first_token.Add(others.first_token);
  next_token.Add(others.next_token);
}

void Latencies::Report(Receipt& receipt) const {
  receipt.first_token_median = first_token.At(0.5);
  receipt.first_token_p99 = first_token.At(0.99);
  receipt.next_token_median = next_token.At(0.5);
  receipt.next_token_p99 = next_token.At(0.99);
}

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

AnswerQueue::Putting::Putting(AnswerQueue& queue) : queue_(queue), lock_(queue.mutex_) {}

AnswerQueue::Putting::~Putting() {
  lock_.unlock();
  queue_.arrived_.notify_all();
}

void AnswerQueue::Putting::Put(AnswerEvent& event) {
  const bool ended = event.ended;
  MakeRoom(1, queue_.events_);
  const auto [place, first] = queue_.place_.try_emplace(event.number, queue_.events_.size());
  if (first) {
    queue_.events_.push_back(std::move(event));
  } else {
    Join(event, queue_.events_[place->second]);
  }
  queue_.ended_ += ended ? 1 : 0;
}

std::vector<AnswerEvent> AnswerQueue::Take(double seconds) {
  std::unique_lock lock(mutex_);
  if (seconds > 0.0) {
    arrived_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return !events_.empty(); });
  }
  place_.clear();
  ended_ = 0;
  return std::exchange(events_, {});
}

int AnswerQueue::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace banyan
