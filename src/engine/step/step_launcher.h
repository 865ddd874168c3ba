// Launches a planned step on the backend: fills new tails, runs the model, asks for the tokens; and
// the roofline of the steps so far.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/engine.h"
#include "engine/memory/engine_memory.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/stream.h"
#include "engine/schedule/in_flight.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/sampling.h"
#include "engine/step/step_plan.h"
#include "load/model_parts.h"
#include "plan/cost.h"

namespace banyan {

ModelSizes SizesOf(const Model::Parts& model);

// The roofline: the least time in which this machine could have done the work so far.
// Sums the least cost of every step, decode steps separately: those are bound by memory, steps with
// prefill by arithmetic.
class Roofline {
 public:
  explicit Roofline(const Model::Parts& model) : sizes_(SizesOf(model)) {}

  // attention_seconds: predicted, of all layers.
  void Add(const PlanStatistics& plan, int logit_rows, bool decode_only, double attention_seconds);
  // Of all steps, and of the decode steps; 0 when the rates are unknown.
  double Seconds(const MachineRates& rates) const;
  double DecodeSeconds(const MachineRates& rates) const;
  // Of all steps: products at the rates, attention as predicted.
  double PredictedSeconds(const MachineRates& rates) const;
  const ModelSizes& sizes() const { return sizes_; }

 private:
  ModelSizes sizes_;
  StepCost prefill_, decode_;
  double attention_seconds_ = 0.0;
};

class StepLauncher {
 public:
  struct Parts {
    EngineMemory& engine_memory;
    const RunningStreams& running;
    StreamMemory& memory;
    InFlightSteps& in_flight;
  };
  // All arguments must outlive this object.
  StepLauncher(const EngineOptions& options, const Model::Parts& model, const Parts& parts);

  // The step is in flight afterwards, and its keys count as computed, because later steps see them.
  // When this throws, nothing has changed. REQUIRES: at most one step is in flight, the one whose
  // choices the plan feeds.
  void Launch(const Scheduler& scheduler, StepPlan& plan);

  const Roofline& roofline() const { return roofline_; }
  // Steps and rows.
  void Report(Receipt& receipt) const;

 private:
  void FillTails(const Scheduler& scheduler);
  void Count(const StepDecision& decision, StepPlan& plan);

  const Strategy strategy_;
  const bool replay_;
  Kernels& kernels_;
  EngineMemory& engine_memory_;
  const RunningStreams& running_;
  StreamMemory& memory_;
  InFlightSteps& in_flight_;
  // Reused from step to step.
  SamplingBatch sampling_;
  std::vector<std::int32_t> logits_;  // of one stream's branches
  std::vector<Branch> tails_;

  Roofline roofline_;
  std::int64_t steps_ = 0, steps_apart_ = 0, decode_rows_ = 0, prefilled_tokens_ = 0,
               recomputed_tokens_ = 0;
};

}  // namespace banyan
