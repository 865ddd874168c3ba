// Submitting, collecting and cancelling the answers of one request.
#include "serve/request/engine_call.h"

#include <algorithm>
#include <new>
#include <thread>
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

size_t TreeBytes(const PromptSegment& request) {
  size_t bytes = sizeof(request) + request.tokens.size() * sizeof(TokenId);
  for (const AnswerRequest& answer : request.answers) {
    bytes += sizeof(answer) + answer.forced.size() * sizeof(TokenId);
    for (const std::string& stop : answer.stop_strings) bytes += sizeof(stop) + stop.size();
  }
  for (const PromptSegment& below : request.below) bytes += TreeBytes(below);
  return bytes;
}

size_t AnswerBytes(const PromptSegment& request) {
  constexpr size_t kTextBytes = 4;  // of a token
  size_t bytes = 0;
  for (const AnswerRequest& answer : request.answers) {
    size_t of_token = sizeof(TokenId) + sizeof(float) + kTextBytes;
    if (answer.top_logprobs > 0) {
      of_token += sizeof(std::vector<ScoredToken>) +
                  static_cast<size_t>(answer.top_logprobs) * sizeof(ScoredToken);
    }
    const auto most =
        std::max(answer.forced.size(), static_cast<size_t>(std::max(0, answer.max_new)));
    bytes += sizeof(AnswerEvent) + most * of_token;
  }
  for (const PromptSegment& below : request.below) bytes += AnswerBytes(below);
  return bytes;
}

namespace {

size_t BytesOf(const std::vector<TokenId>& tokens, const std::vector<std::vector<ScoredToken>>& top,
               const std::string& text) {
  size_t bytes = tokens.size() * (sizeof(TokenId) + sizeof(float)) + text.size();
  for (const std::vector<ScoredToken>& of_token : top) {
    bytes += sizeof(of_token) + of_token.size() * sizeof(ScoredToken);
  }
  return bytes;
}

}  // namespace

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

// Nobody else would cancel these answers, so it waits for the memory that this takes.
EngineCall::~EngineCall() {
  if (reply_) reply_->WhenGone(nullptr);
  while (open_ > 0) {
    try {
      submitted_->Cancel();
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

std::optional<RequestId> EngineCall::TrySubmit(PromptSegment& request) {
  const std::int64_t answers = CountAnswers(request);
  // The engine has a copy of what it reads, and its answers wait there for a client that is slow.
  const size_t tree = TreeBytes(request), more = tree + AnswerBytes(request);
  ChargeBudget(more);
  {  // once it is submitted, nothing may keep it from being cancelled
    const std::lock_guard lock(submitted_->mutex);
    std::vector<RequestId>& requests = submitted_->requests;
    if (requests.size() == requests.capacity()) requests.reserve(2 * requests.size() + 1);
  }
  const std::optional<RequestId> id = context_.engine.TrySubmit(request, submit_);
  if (!id) return std::nullopt;
  open_ += answers;
  AdoptMemory(more);
  held_ += tree + more;  // this thread made the tree, and the engine frees it
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
    AdoptMemory(BytesOf(event.tokens, event.top, event.text));
    if (!event.ended) continue;
    AdoptMemory(BytesOf(event.answer.tokens, event.answer.top, event.answer.text));
    // Of the answers that are open each has the same part.
    const size_t part = held_ / static_cast<size_t>(std::max<std::int64_t>(1, open_));
    DisownMemory(part);
    held_ -= part;
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
