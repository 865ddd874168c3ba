// A planned step's way to the backend.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/engine.h"
#include "engine/choice_requests.h"
#include "engine/limit.h"
#include "engine/memory.h"
#include "engine/running_streams.h"
#include "engine/step_composer.h"
#include "engine/step_plan.h"
#include "engine/steps_under_way.h"
#include "engine/stream_memory.h"

namespace banyan {

class StepLauncher {
 public:
  struct Parts {
    EngineMemory& engine_memory;
    const RunningStreams& running;
    StreamMemory& memory;
    StepsUnderWay& under_way;
  };
  // All arguments must outlive this object.
  StepLauncher(const EngineOptions& options, const Model::Parts& model, const Parts& parts);

  // The step joins those under way, and its keys count as computed: in the order of steps,
  // everything later sees them. When this throws, nothing has changed. REQUIRES: at most one step
  // is under way, which is the one whose choices the plan feeds.
  void Launch(const StepComposer& composer, StepPlan& plan);

  const WorkLimit& limit() const { return limit_; }
  // Steps and rows.
  void Report(Receipt& receipt) const;

 private:
  void FillTails(const StepComposer& composer);
  void Count(const StepDecision& decision, StepPlan& plan);

  const Strategy strategy_;
  const bool replay_;
  Kernels& kernels_;
  EngineMemory& engine_memory_;
  const RunningStreams& running_;
  StreamMemory& memory_;
  StepsUnderWay& under_way_;
  // Memory is used again.
  ChoiceRequests choices_;
  std::vector<std::int32_t> logits_;  // of one stream's branches
  std::vector<Branch> tails_;

  WorkLimit limit_;
  std::int64_t steps_ = 0, steps_apart_ = 0, decode_rows_ = 0, prefilled_tokens_ = 0,
               recomputed_tokens_ = 0;
};

}  // namespace banyan
