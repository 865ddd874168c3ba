// The engine's working parts, put together for one thread at a time. The loop is Step: admit →
// decide → plan → launch → take. What comes from other threads and goes to them is service.h.
//
//   Deliveries     what becomes known of answers, and the requests that are not over
//   StreamMemory   the forest, its pages, the KV store
//   Admission      who runs and who waits
//   SkeletonTurns  whose turn it is among the values of a template, and what they see
//   StepComposer   which rows the next step has
//   StepPlan       these rows as arrays
//   StepLauncher   the arrays' way to the backend
//   StepsUnderWay  what the backend has
//   TokenTaker     its tokens, and what follows from them
//
// A part knows only those it is given by its constructor, which stand above it in this class.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "base/timing.h"
#include "engine/admission.h"
#include "engine/deliveries.h"
#include "engine/memory.h"
#include "engine/skeleton_turns.h"
#include "engine/step_composer.h"
#include "engine/step_launcher.h"
#include "engine/step_plan.h"
#include "engine/step_row_limit.h"
#include "engine/steps_under_way.h"
#include "engine/stream_memory.h"
#include "engine/token_taker.h"
#include "load/model_parts.h"

namespace banyan {

class EngineCore {
 public:
  EngineCore(std::shared_ptr<Model> model, const EngineOptions& options);

  void Accept(std::shared_ptr<RequestTree> request) { admission_.Add(std::move(request)); }
  // --- requests.cc: ends from outside. Without a tag: of all answers of the request.
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  // Ends all answers that have not ended: cancelled, or with an error.
  void EndAll(FinishReason reason, const std::string& why);

  // --- step.cc: the loop
  bool Step();

  // What happened since the last call.
  std::vector<Deliveries::Delivery> TakeDeliveries() { return deliveries_.Take(); }

  std::int64_t waiting() const { return admission_.line().streams(); }
  std::int64_t waiting_tokens() const { return admission_.line().tokens(); }
  int writing() const { return admission_.running().writing(); }
  int most_branches() const { return memory_.logit_rows; }  // of one stream
  bool idle() const { return nothing_waits_or_runs() && under_way_.empty(); }
  int max_streams() const { return admission_.max_streams(); }
  Receipt MakeReceipt();
  std::string Explain();                                                       // explain.cc
  std::vector<ForestNode> Picture(std::span<const RequestId> requests) const;  // picture.cc

 private:
  void CancelTagged(const std::shared_ptr<RequestTree>& request, std::uint64_t tag);
  bool LaunchNext();
  void TakeOldest();
  bool nothing_waits_or_runs() const {
    return admission_.line().empty() && admission_.running().empty();
  }

  const std::shared_ptr<Model> model_;
  const EngineOptions options_;
  EngineMemory memory_;
  // Steps that are launched before the tokens of the latest are known: 0 or 1.
  const size_t steps_ahead_;

  Deliveries deliveries_;
  StepsUnderWay under_way_;
  StreamMemory streams_;
  Admission admission_;
  SkeletonTurns skeletons_;
  StepRowLimit row_limit_;
  StepComposer composer_;
  StepPlan plan_;
  StepLauncher launcher_;
  TokenTaker taker_;

  Timer::Clock::time_point step_began_;
  Receipt times_;  // times and counts of steps; the parts report the rest
};

}  // namespace banyan
