// The loop of the engine: launch a step, then take the tokens of the one before it. While the
// backend computes one step, the host takes tokens, tests for stops, admits and plans the next; the
// tokens that the next step feeds go from choice to embedding without the host. A stream that ends
// with a token of step t may have a row in step t + 1: it writes to the stream's own page and its
// result is dropped.
//
// With steps_ahead 0 every step's tokens are taken before the next is planned: the plain loop,
// which judges the other. The answers are the same.
#include <chrono>

#include "base/error.h"
#include "base/timer.h"
#include "engine/core.h"

namespace banyan {
namespace {

// Steps after a refusal of memory until larger ones are tried again.
constexpr int kStepsBeforeGrowing = 32;
// With nothing to compute before something is loaded; others who want the engine wait as long.
constexpr double kLoadWaitSeconds = 0.01;

}  // namespace

bool EngineCore::Step() {
  const size_t deliveries_before = deliveries_.size();
  const bool launched = LaunchNext();
  if (launched_.empty() && stored_ && stored_->pending()) {  // whoever runs waits for the disk
    stored_->Take(kLoadWaitSeconds);
    return true;
  }
  // Streams that could not be admitted have failed: whoever loops must still look at them.
  if (launched_.empty()) return deliveries_.size() > deliveries_before;
  const size_t may_stay = launched && !launched_.back().take_at_once ? steps_ahead_ : 0;
  while (launched_.size() > may_stay) TakeOldest();
  return true;
}

// Hands the next step to the backend; false when there is nothing to compute before tokens are
// taken. Where memory for a step is refused, smaller ones are tried.
bool EngineCore::LaunchNext() {
  if (launched_.empty()) step_began_ = Timer::Clock::now();
  for (;;) {
    int rows = 0;
    try {
      {
        Timer timer(receipt_.plan_seconds);
        if (stored_) stored_->Take(0.0);
        Admit();
        Decide();
        rows = scheduler_.decision().rows();
        if (rows == 0 && running_.empty() && !line_.empty()) continue;  // all gave way or failed
        if (rows == 0) return false;
        PlanStep();
      }
      Timer timer(receipt_.forward_seconds);
      Launch();
      if (step_rows_ < batch_rows_ && ++steps_since_refusal_ >= kStepsBeforeGrowing) {
        step_rows_ = std::min(batch_rows_, 2 * step_rows_);
        steps_since_refusal_ = 0;
      }
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit || rows <= 1) throw;
    }
    // What is under way may hold memory, and its tokens change what is next.
    while (!launched_.empty()) TakeOldest();
    step_rows_ = rows / 2;
    steps_since_refusal_ = 0;
    ++receipt_.refused_steps;
  }
}

void EngineCore::TakeOldest() {
  LaunchedStep step = std::move(launched_.front());
  launched_.erase(launched_.begin());
  const std::int64_t tokens_before = receipt_.generated_tokens;
  {
    Timer timer(receipt_.choose_seconds);
    Take(step);
  }
  const auto now = Timer::Clock::now();
  const double seconds = std::chrono::duration<double>(now - step_began_).count();
  step_began_ = now;
  (step.decode_only ? receipt_.decode_step_seconds : receipt_.prefill_step_seconds) += seconds;
  if (step.decode_only) {
    ++receipt_.decode_steps;
    receipt_.decode_step_tokens += receipt_.generated_tokens - tokens_before;
  }
  taken_.push_back(std::move(step));
}

}  // namespace banyan
