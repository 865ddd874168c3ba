// The least time that the work done so far could have taken on this machine.
#pragma once

#include "load/model_parts.h"
#include "plan/cost.h"

namespace banyan {

ModelSizes SizesOf(const Model::Parts& model);

// Sums the least cost of every step, prompts and answers apart: steps that only extend streams are
// bound by memory, the others by arithmetic.
class Roofline {
 public:
  explicit Roofline(const Model::Parts& model) : sizes_(SizesOf(model)) {}

  // attention_seconds: predicted, of all layers.
  void Add(const PlanStatistics& plan, int logit_rows, bool decode_only, double attention_seconds);
  // Of everything, and of the steps that only extend streams; 0 when the rates are unknown.
  double Seconds(const MachineRates& rates) const;
  double DecodeSeconds(const MachineRates& rates) const;
  // Of everything: products at the rates, attention as predicted.
  double PredictedSeconds(const MachineRates& rates) const;
  const ModelSizes& sizes() const { return sizes_; }

 private:
  ModelSizes sizes_;
  StepCost prefill_, decode_;
  double attention_seconds_ = 0.0;
};

}  // namespace banyan
