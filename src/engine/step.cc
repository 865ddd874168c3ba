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
#include "base/timing.h"
#include "engine/core.h"

namespace banyan {
namespace {

// With nothing to compute before something is loaded; others who want the engine wait as long.
constexpr double kLoadWaitSeconds = 0.01;

}  // namespace

bool EngineCore::Step() {
  const size_t deliveries_before = deliveries_.size();
  const bool launched = LaunchNext();
  if (under_way_.empty() && streams_.loads()) {  // whoever runs waits for the disk
    streams_.TakeLoaded(kLoadWaitSeconds);
    return true;
  }
  // Streams that could not be admitted have failed: whoever loops must still look at them.
  if (under_way_.empty()) return deliveries_.size() > deliveries_before;
  const size_t may_stay = launched && !under_way_.latest().take_at_once ? steps_ahead_ : 0;
  while (under_way_.size() > may_stay) TakeOldest();
  return true;
}

// Hands the next step to the backend; false when there is nothing to compute before tokens are
// taken. Where memory for a step is refused, smaller ones are tried.
bool EngineCore::LaunchNext() {
  if (under_way_.empty()) step_began_ = Timer::Clock::now();
  for (;;) {
    int rows = 0;
    try {
      {
        Timer timer(times_.plan_seconds);
        streams_.TakeLoaded(0.0);
        admission_.Admit();
        streams_.CopyBeginnings();
        rows = composer_.Decide(row_limit_.rows()).rows();
        if (rows == 0 && admission_.running().empty() && !admission_.line().empty()) {
          continue;  // all gave way or failed
        }
        if (rows == 0) return false;
        plan_.Build(composer_.decision());
      }
      Timer timer(times_.forward_seconds);
      launcher_.Launch(composer_, plan_);
      row_limit_.Launched();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit || rows <= 1) throw;
    }
    // What is under way may hold memory, and its tokens change what is next.
    while (!under_way_.empty()) TakeOldest();
    row_limit_.Refused(rows);
  }
}

void EngineCore::TakeOldest() {
  LaunchedStep step = under_way_.TakeOldest();
  const std::int64_t tokens_before = deliveries_.tokens();
  {
    Timer timer(times_.choose_seconds);
    taker_.TakeStep(step);
  }
  const auto now = Timer::Clock::now();
  const double seconds = std::chrono::duration<double>(now - step_began_).count();
  step_began_ = now;
  (step.decode_only ? times_.decode_step_seconds : times_.prefill_step_seconds) += seconds;
  if (step.decode_only) {
    ++times_.decode_steps;
    times_.decode_step_tokens += deliveries_.tokens() - tokens_before;
  }
  under_way_.Recycle(std::move(step));
}

}  // namespace banyan
