// The engine's working parts, put together for one thread at a time. The loop is Step: admit →
// schedule → plan → launch → read tokens. engine.cc connects it with other threads.
//
//   AnswerEvents      events for the callers, and the requests that are not over
//   InFlightSteps     steps that the backend is computing
//   StreamMemory      the forest, its pages, the KV store
//   Admission         which streams run and which wait
//   SkeletonSchedule  which values of a template advance, and what they see
//   Scheduler         which rows the next step has
//   StepPlan          these rows as arrays
//   StepLauncher      hands the arrays to the backend
//   OutputProcessor   its tokens, and what follows from them
//
// A part knows only those that its constructor is given, which stand above it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "base/timing.h"
#include "engine/memory/engine_memory.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/schedule/admission_preemption.h"
#include "engine/schedule/in_flight.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/skeleton.h"
#include "engine/step/output_processor.h"
#include "engine/step/step_launcher.h"
#include "engine/step/step_plan.h"
#include "load/model_parts.h"

namespace banyan {

class EngineCore {
 public:
  EngineCore(std::shared_ptr<Model> model, size_t device, const EngineOptions& options);

  // Throws std::bad_alloc, and nothing has changed.
  void Accept(const std::shared_ptr<RequestTree>& request) { parts_->admission.Add(request); }
  // Without a tag: all answers of the request.
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  // Ends all answers that have not ended: cancelled, or with an error.
  void EndAll(FinishReason reason, const std::string& why);
  // After an exception of Cancel, EndAll or Step, when nothing is known of what they left behind:
  // ends all answers that have not ended with an error, and the parts, with all KV, are made anew.
  // When this throws, call it again.
  void StartAnew(const std::string& why);

  // Admits what can be; whether nothing waits then. Exceptions are as those of Step.
  bool HasRoom();
  // Of the stream that is next. REQUIRES: something waits.
  int next_priority() const { return parts_->admission.waiting().Next().first->priority; }

  // Launches a step and reads the tokens of one; false when no work is left.
  bool Step();

  // Events since the last call.
  std::vector<AnswerEvents::Delivery> TakeEvents() { return events_.Take(); }

  std::int64_t waiting() const { return parts_->admission.waiting().streams(); }
  std::int64_t waiting_tokens() const { return parts_->admission.waiting().tokens(); }
  int writing() const { return parts_->admission.running().writing(); }
  int most_branches() const { return memory_.logit_rows; }  // of one stream
  bool idle() const { return nothing_waits_or_runs() && parts_->in_flight.empty(); }
  int max_streams() const { return memory_.max_streams; }
  int batch_rows() const { return memory_.batch_rows; }
  Receipt MakeReceipt();
  const Latencies& latencies() const { return events_.latencies(); }
  // Adds what is waiting to `ahead`.
  std::string Explain(WorkAhead& ahead);
  std::vector<ForestNode> Picture(std::span<const RequestId> requests) const;

 private:
  void CancelTagged(const std::shared_ptr<RequestTree>& request, std::uint64_t tag);
  bool LaunchNext();
  void TakeOldest();
  bool nothing_waits_or_runs() const {
    return parts_->admission.waiting().empty() && parts_->admission.running().empty();
  }

  const std::shared_ptr<Model> model_;
  Model::Parts& copy_;  // of the model, on this core's device
  const EngineOptions options_;
  EngineMemory memory_;
  // Steps that are launched before the tokens of the previous one are known: 0 or 1.
  const size_t steps_ahead_;

  AnswerEvents events_;
  StepRowLimit row_limit_;

  // What works on the open requests; made anew by StartAnew.
  struct Parts {
    Parts(const Model::Parts& model, const EngineOptions& options, EngineMemory& engine_memory,
          AnswerEvents& events);

    InFlightSteps in_flight;
    StreamMemory stream_memory;
    Admission admission;
    SkeletonSchedule skeletons;
    Scheduler scheduler;
    StepPlan plan;
    StepLauncher launcher;
    OutputProcessor output;
  };
  std::unique_ptr<Parts> parts_;

  Timer::Clock::time_point step_began_;
  Receipt times_;  // times and counts of steps; the parts report the rest
};

}  // namespace banyan
