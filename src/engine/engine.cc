#include "banyan/engine.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "engine/service.h"

namespace banyan {
namespace {

constexpr std::array<std::pair<const char*, Strategy>, 7> kStrategies = {{
    {"flat", Strategy::kFlat},
    {"paged", Strategy::kPaged},
    {"stacked", Strategy::kStacked},
    {"tree", Strategy::kTree},
    {"auto", Strategy::kAuto},
    {"sequential", Strategy::kSequential},
    {"no-attention", Strategy::kNoAttention},
}};

}  // namespace

Strategy ParseStrategy(const std::string& name) {
  std::string names;
  for (const auto& [text, strategy] : kStrategies) {
    if (name == text) return strategy;
    names += (names.empty() ? "" : ", ") + std::string(text);
  }
  Throw(ErrorKind::kUsage, "--strategy: expected one of {}; found '{}'", names, name);
}

const char* StrategyName(Strategy strategy) {
  for (const auto& [text, value] : kStrategies) {
    if (value == strategy) return text;
  }
  return "?";
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

Engine::Engine(std::shared_ptr<Model> model, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}
Engine::~Engine() { Shutdown(Unfinished::kCancel); }

std::optional<RequestId> Engine::TrySubmit(PromptSegment& request, const SubmitOptions& options) {
  return state_->Submit(request, options, /*wait=*/false);
}
RequestId Engine::Submit(PromptSegment request, const SubmitOptions& options) {
  return *state_->Submit(request, options, /*wait=*/true);
}
void Engine::Cancel(RequestId request) { state_->Cancel(request, std::nullopt); }
void Engine::Cancel(RequestId request, std::uint64_t tag) { state_->Cancel(request, tag); }

bool Engine::Step() { return state_->Step(); }
void Engine::Start() { state_->Start(); }
void Engine::Shutdown(Unfinished unfinished) { state_->Shutdown(unfinished); }
bool Engine::WaitUntilIdle(double seconds) { return state_->WaitUntilIdle(seconds); }

std::vector<AnswerEvent> Engine::TakeEvents(double seconds) {
  return state_->own_queue->Take(seconds);
}

std::vector<Answer> Engine::TakeFinished() {
  std::vector<Answer> answers;
  for (AnswerEvent& event : state_->own_queue->Take()) {
    if (event.ended) answers.push_back(std::move(event.answer));
  }
  return answers;
}

int Engine::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->waiting + state_->inbox.answers);
}

int Engine::running() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}

int Engine::wanted_waiting() const { return state_->core.max_streams(); }
Receipt Engine::receipt() const { return state_->MakeReceipt(); }
std::string Engine::Explain() { return state_->Explain(); }
std::vector<ForestNode> Engine::Picture(std::span<const RequestId> requests) const {
  return state_->Picture(requests);
}

}  // namespace banyan
