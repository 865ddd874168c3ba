// The events of answers, until they are put into the callers' queues, and the open requests.
//
// Invariants:
// 1. A request is open from Open until the last of its streams has ended (AddEnds).
// 2. Every answer has one event with `ended`, after those of its tokens.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "base/timing.h"
#include "engine/request/stream.h"

namespace banyan {

// Of the tokens of answers, in seconds.
struct Latencies {
  Quantiles first_token, next_token;

  void Add(const Latencies& others);
  void Report(Receipt& receipt) const;
};

class AnswerEvents {
 public:
  // An event and its queue; null: the engine's own.
  using Delivery = std::pair<std::shared_ptr<AnswerQueue>, AnswerEvent>;

  // Throws std::bad_alloc, and nothing has changed.
  void Open(const std::shared_ptr<RequestTree>& request);
  // Null: the request is over, or unknown.
  std::shared_ptr<RequestTree> Find(RequestId id) const;
  // In order of id.
  std::vector<std::shared_ptr<RequestTree>> OpenRequests() const;

  // The latest token of the answer that the stream writes.
  void AddToken(Stream& stream);
  // Ends the answer that the stream writes; the stream advances to its next one.
  void AddEnd(Stream& stream, FinishReason reason, const std::string& why);
  // Ends all answers that the stream has not ended; the stream is over then. When this throws, the
  // rest can be ended later.
  void AddEnds(Stream& stream, FinishReason reason, const std::string& why);

  // Since the last call of Take.
  size_t size() const { return pending_.size(); }
  std::vector<Delivery> Take() { return std::exchange(pending_, {}); }

  std::int64_t tokens() const { return tokens_; }  // of all answers so far
  // Streams, tokens, ends and latencies.
  void Report(Receipt& receipt) const;
  const Latencies& latencies() const { return latencies_; }

 private:
  std::unordered_map<RequestId, std::shared_ptr<RequestTree>> open_;
  std::vector<Delivery> pending_;
  Latencies latencies_;
  std::int64_t streams_ = 0, tokens_ = 0, failed_ = 0, cancelled_ = 0;
};

}  // namespace banyan
