#include "banyan/engine.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "engine/engine_state.h"

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

// A step ahead costs a row for every stream that stops, which only pays where the host would
// otherwise keep a device waiting.
size_t StepsAhead(const EngineOptions& options, const Kernels& kernels) {
  if (options.steps_ahead < 0) return kernels.asynchronous() ? 1 : 0;
  return static_cast<size_t>(std::min(options.steps_ahead, 1));
}

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
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

Engine::State::State(std::shared_ptr<Model> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      kernels_(*model_->parts().kernels),
      config_(model_->parts().config),
      memory_(AllocateMemory(options, model_->parts())),
      batch_rows_(memory_.batch_rows),
      max_streams_(memory_.max_streams),
      steps_ahead_(StepsAhead(options, kernels_)),
      forest_(kCutKeys, model_->parts().fingerprint),
      cache_(forest_, memory_.kv->pages),
      builder_(forest_, cache_),
      step_rows_(batch_rows_),
      limit_(model_->parts()) {}

Engine::Engine(std::shared_ptr<Model> model, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}
Engine::~Engine() = default;

void Engine::Submit(PromptSegment request) { state_->Submit(std::move(request)); }
std::string Engine::Explain() { return state_->Explain(); }
bool Engine::Step() { return state_->Step(); }
std::vector<Answer> Engine::TakeFinished() { return std::exchange(state_->finished_, {}); }
int Engine::waiting() const { return static_cast<int>(state_->waiting_.size()); }
int Engine::running() const { return static_cast<int>(state_->running_.size()); }

std::vector<std::uint64_t> Engine::WaitingTags() const {
  std::vector<std::uint64_t> tags;
  for (const auto& stream : state_->waiting_) {
    for (const AnswerRequest& answer : stream->wanted) tags.push_back(answer.tag);
  }
  return tags;
}

// A stream of several answers goes only as a whole.
void Engine::CancelWaiting(const std::function<bool(std::uint64_t)>& unwanted) {
  std::erase_if(state_->waiting_, [&](const std::unique_ptr<Stream>& stream) {
    const bool goes = std::all_of(stream->wanted.begin(), stream->wanted.end(),
                                  [&](const AnswerRequest& a) { return unwanted(a.tag); });
    if (goes) --state_->receipt_.streams;
    return goes;
  });
}

int Engine::wanted_waiting() const { return state_->max_streams_; }

Receipt Engine::receipt() const {
  Receipt receipt = state_->receipt_;
  const ModelConfig& config = state_->config_;
  const std::int64_t page_bytes =
      state_->kernels_.KvPageBytes({config.layers, config.kv_heads, config.head_dim});
  receipt.kv_bytes_peak = page_bytes * state_->cache_.peak_pages();
  receipt.kv_bytes_total = page_bytes * state_->cache_.total_pages();
  const MachineRates& rates = state_->model_->parts().Rates();
  receipt.limit_seconds = state_->limit_.Seconds(rates);
  receipt.decode_limit_seconds = state_->limit_.DecodeSeconds(rates);
  return receipt;
}

}  // namespace banyan
