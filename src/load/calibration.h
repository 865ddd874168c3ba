// Confidence calibrations of a model card: how log-probabilities become the probability that an
// answer is right (Calibration of banyan/model.h), and their JSON form.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "banyan/model.h"
#include "base/json.h"

namespace banyan {

// The calibrations of one task by kind of answer; "": all other kinds.
using CalibrationsByKind = std::map<std::string, Calibration, std::less<>>;

// Reads {"scale", "offset", "feature"?}, an object of these by kind, or both in one. Throws kFormat
// with `where` and the field.
CalibrationsByKind ReadCalibrations(const Json& json, const std::string& where);
Json JsonOf(const CalibrationsByKind& kinds);

}  // namespace banyan
