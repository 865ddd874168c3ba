// Submitting, collecting and cancelling the answers of one request.
#include "serve/request/engine_call.h"

#include <utility>

#include "base/work_budget.h"
#include "serve/request/api_error.h"

namespace banyan {

nlohmann::ordered_json ToJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::int64_t CountAnswers(const PromptSegment& request) {
  auto count = static_cast<std::int64_t>(request.answers.size());
  for (const PromptSegment& below : request.below) count += CountAnswers(below);
  return count;
}

void EngineCall::Submitted::Cancel() {
  std::vector<RequestId> all;
  {
    const std::lock_guard lock(mutex);
    cancelled = true;
    all = requests;
  }
  for (const RequestId request : all) engine.Cancel(request);
}

EngineCall::EngineCall(ServeContext& context, std::uint64_t scope, int priority, HttpReply* reply)
    : context_(context),
      reply_(reply),
      submitted_(std::make_shared<Submitted>(context.engine)),
      began_(std::chrono::steady_clock::now()) {
  submit_.scope = scope;
  submit_.priority = priority;
  submit_.queue = std::make_shared<AnswerQueue>();
  if (reply_) reply_->WhenGone([submitted = submitted_] { submitted->Cancel(); });
}

EngineCall::~EngineCall() {
  if (reply_) reply_->WhenGone(nullptr);
  if (open_ > 0) submitted_->Cancel();
}

std::optional<RequestId> EngineCall::TrySubmit(PromptSegment& request) {
  const std::int64_t answers = CountAnswers(request);
  const std::optional<RequestId> id = context_.engine.TrySubmit(request, submit_);
  if (!id) return std::nullopt;
  open_ += answers;
  bool cancelled;
  {
    const std::lock_guard lock(submitted_->mutex);
    submitted_->requests.push_back(*id);
    cancelled = submitted_->cancelled;
  }
  if (cancelled) context_.engine.Cancel(*id);
  return id;
}

void EngineCall::Submit(PromptSegment& request) {
  if (!TrySubmit(request)) throw ApiError(429, "the queue is full: too many answers wait");
}

void EngineCall::Cancel() { submitted_->Cancel(); }

std::vector<AnswerEvent> EngineCall::Take(double seconds) {
  std::vector<AnswerEvent> events = submit_.queue->Take(seconds);
  for (const AnswerEvent& event : events) {
    if (!event.ended) continue;
    --open_;
    context_.metrics.CountAnswer(event.answer);
  }
  {
    const std::lock_guard lock(submitted_->mutex);
    if (submitted_->cancelled) throw ApiError(503, "the request was cancelled");
  }
  CheckBudget();
  return events;
}

std::vector<RequestId> EngineCall::requests() const {
  const std::lock_guard lock(submitted_->mutex);
  return submitted_->requests;
}

double EngineCall::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

}  // namespace banyan
