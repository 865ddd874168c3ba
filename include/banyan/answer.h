// The output of an engine: answers, whole or token by token, and the queue they arrive in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/types.h"

namespace banyan {

enum class FinishReason { kStopToken, kStopString, kLength, kCancelled, kError };
// "stop", "stop", "length", "cancelled", "error"
const char* FinishReasonName(FinishReason reason);

struct ScoredToken {
  TokenId token = 0;
  float logprob = 0.0f;
};

struct Answer {
  std::uint64_t tag = 0;
  FinishReason finish = FinishReason::kLength;
  std::vector<TokenId> tokens;                // with the stop token; after an error, those so far
  std::vector<float> logprobs;                // [tokens] log-softmax of the raw logits
  std::vector<std::vector<ScoredToken>> top;  // [tokens], when asked for
  std::string text;                  // with stop strings or `stream`: the text before the stop
  std::vector<float> prompt_logits;  // when asked for
  // Of a panel: the expert (from 0) that won each token, and every expert's beta.
  std::vector<std::int32_t> experts;  // [tokens]
  std::vector<double> betas;          // [experts], once the first token is there
  // [experts] the probability that each began with null; nothing where none may abstain.
  std::vector<double> abstentions;
  std::string error;  // with kError: why
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, in memory when the stream began
  // From Submit to the first token (0: there was none) and to the end.
  double first_token_seconds = 0.0, seconds = 0.0;
};

using RequestId = std::uint64_t;  // from 1, in order of submission; 0: none

// An event of one answer: its tokens since the last event, and at the end the whole answer.
struct AnswerEvent {
  RequestId request = 0;
  std::uint64_t tag = 0;
  // With AnswerRequest::stream. The text is safe to show: it has whole characters and nothing that
  // could still become part of a stop string. The pieces add up to Answer::text.
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<std::vector<ScoredToken>> top;
  std::string text;
  bool ended = false;
  Answer answer;             // when ended
  std::uint64_t number = 0;  // of the answer: unique within its engine
};

// The queue of events. Any number of threads may put and take. Tokens of an answer that wait here
// are joined into one event, so the queue never exceeds the size of the answers themselves.
class AnswerQueue {
 public:
  // Takes all queued events, those of one answer in order. Waits up to `seconds` for the first.
  std::vector<AnswerEvent> Take(double seconds = 0.0);
  int ended() const;  // finished answers in the queue

  // Puts events into a queue; when it is destroyed, whoever waits for them is woken.
  class Putting {
   public:
    explicit Putting(AnswerQueue& queue);
    ~Putting();
    Putting(const Putting&) = delete;
    Putting& operator=(const Putting&) = delete;
    // Moves the event into the queue. Throws std::bad_alloc, and nothing has changed.
    void Put(AnswerEvent& event);

   private:
    AnswerQueue& queue_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  std::vector<AnswerEvent> events_;
  std::unordered_map<std::uint64_t, size_t> place_;  // answer's number → its event
  int ended_ = 0;
};

}  // namespace banyan
