// The roofline: the least time in which this machine could have done the work so far.
#pragma once

#include "load/model_parts.h"
#include "plan/cost.h"

namespace banyan {

ModelSizes SizesOf(const Model::Parts& model);

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

}  // namespace banyan
