// What shards divide of a loaded model, and how long a job would take on several devices.
#pragma once

#include <string>
#include <vector>

#include "banyan/engine.h"
#include "load/model_parts.h"
#include "plan/division_cost.h"

namespace banyan {

// Of the whole model, whether it is divided now or not.
DivisionSizes DivisionOf(const Model::Parts& model);

struct StepLimits {
  int rows = 0, streams = 0;
};
// Empty where the machine's rates are not known. `devices`: how many the model has.
std::vector<DevicesPrediction> PredictDevices(const Model::Parts& model, const MachineRates& rates,
                                              const WorkAhead& work, const StepLimits& limits,
                                              int devices);
// The lines of --explain; `chosen` says how the model's devices are used.
std::string DescribePredictions(const std::vector<DevicesPrediction>& predictions,
                                const Model::Parts& model, const MachineRates& rates,
                                const std::string& chosen);

}  // namespace banyan
