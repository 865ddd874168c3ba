// One HTTP request's work in the engine. Answers that have not ended are cancelled when the client
// leaves, the time is over or the call is destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/engine.h"
#include "base/json.h"
#include "serve/http/http.h"
#include "serve/request/context.h"

namespace banyan {

// The tokens of a request, in OpenAI's words.
struct Usage {
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
};
// {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}}
nlohmann::ordered_json ToJson(const Usage& usage);

class EngineCall {
 public:
  // `reply` may be null: there is no client that can leave.
  EngineCall(ServeContext& context, std::uint64_t scope, int priority, HttpReply* reply);
  ~EngineCall();
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  // Nothing, and an unchanged request, when the engine's queue is full.
  [[nodiscard]] std::optional<RequestId> TrySubmit(PromptSegment& request);
  // The same, but throws ApiError 429.
  void Submit(PromptSegment& request);
  // Events that arrive within so many seconds. Throws WorkStopped when the thread's budget is over
  // and ApiError 503 when the client is gone or Cancel was called.
  std::vector<AnswerEvent> Take(double seconds);
  void Cancel();

  std::int64_t open() const { return open_; }  // answers that have not ended
  std::vector<RequestId> requests() const;
  double seconds() const;  // since the call began

 private:
  // Outlives the call: the client may go away at any moment.
  struct Submitted {
    explicit Submitted(Engine& engine) : engine(engine) {}
    Engine& engine;
    std::mutex mutex;  // guards what follows
    std::vector<RequestId> requests;
    bool cancelled = false;
    void Cancel();
  };

  ServeContext& context_;
  SubmitOptions submit_;
  HttpReply* reply_;
  std::shared_ptr<Submitted> submitted_;
  std::int64_t open_ = 0;
  size_t held_ = 0;  // bytes that the engine has for the open answers, counted for this thread
  std::chrono::steady_clock::time_point began_;
};

// How many answers the tree asks for.
std::int64_t CountAnswers(const PromptSegment& request);
// Bytes of the tree itself, and of its answers at their longest while nobody takes them.
size_t TreeBytes(const PromptSegment& request);
size_t AnswerBytes(const PromptSegment& request);

}  // namespace banyan
