#include <chrono>
#include <iterator>
#include <utility>

#include "banyan/answer.h"

namespace banyan {
namespace {

template <typename T>
void Append(std::vector<T>& more, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// The later event's news behind the earlier one's.
void Join(AnswerEvent& later, AnswerEvent& earlier) {
  Append(later.tokens, earlier.tokens);
  Append(later.logprobs, earlier.logprobs);
  Append(later.top, earlier.top);
  earlier.text += later.text;
  earlier.ended = later.ended;
  earlier.answer = std::move(later.answer);
}

}  // namespace

void AnswerQueue::Put(std::vector<AnswerEvent> events) {
  if (events.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (AnswerEvent& event : events) {
      ended_ += event.ended ? 1 : 0;
      const auto [place, first] = place_.try_emplace(event.number, events_.size());
      if (first) {
        events_.push_back(std::move(event));
      } else {
        Join(event, events_[place->second]);
      }
    }
  }
  arrived_.notify_all();
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
