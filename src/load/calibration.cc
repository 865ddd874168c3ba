#include "load/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/json_fields.h"

namespace banyan {
namespace {

using Feature = Calibration::Feature;
constexpr std::array<std::pair<const char*, Feature>, 3> kFeatures = {
    {{"mean_logprob", Feature::kMeanLogprob},
     {"sum_logprob", Feature::kSumLogprob},
     {"log_odds", Feature::kLogOdds}}};

const char* NameOfFeature(Feature feature) { return kFeatures[static_cast<size_t>(feature)].first; }

double NumberOf(const JsonFields& fields, const char* key) {
  const std::optional<double> number = fields.FindNumber(key);
  if (!number) Throw(ErrorKind::kFormat, "{}: '{}' is missing", fields.where(), key);
  return *number;
}

Calibration ReadCalibration(const JsonFields& fields) {
  Calibration calibration;
  calibration.scale = NumberOf(fields, "scale");
  calibration.offset = NumberOf(fields, "offset");
  const std::string name =
      fields.FindString("feature").value_or(NameOfFeature(Feature::kMeanLogprob));
  for (const auto& [known, feature] : kFeatures) {
    if (name != known) continue;
    calibration.feature = feature;
    return calibration;
  }
  Throw(ErrorKind::kFormat,
        "{}: 'feature': expected mean_logprob, sum_logprob or log_odds, found '{}'", fields.where(),
        name);
}

bool IsPartOfCalibration(const std::string& name) {
  return name == "scale" || name == "offset" || name == "feature";
}

Json JsonOf(const Calibration& calibration) {
  return {{"feature", NameOfFeature(calibration.feature)},
          {"scale", calibration.scale},
          {"offset", calibration.offset}};
}

}  // namespace

double Calibration::Probability(double x) const {
  // An impossible answer has x = -infinity, which a scale of 0 leaves alone.
  const double z = scale == 0.0 ? offset : scale * x + offset;
  // Of two equal forms the one that does not overflow.
  if (z >= 0.0) return 1.0 / (1.0 + std::exp(-z));
  const double e = std::exp(z);
  return e / (1.0 + e);
}

double Calibration::Probability(std::span<const float> logprobs) const {
  double sum = 0.0;
  for (const float logprob : logprobs) sum += logprob;
  return ProbabilityOf(sum, static_cast<int>(logprobs.size()));
}

double Calibration::ProbabilityOf(double sum, int tokens) const {
  switch (feature) {
    case Feature::kMeanLogprob:
      return Probability(tokens == 0 ? 0.0 : sum / tokens);
    case Feature::kSumLogprob:
      break;
    case Feature::kLogOdds: {
      const double below_one = std::min(sum, -1e-9);
      return Probability(std::clamp(below_one - std::log(-std::expm1(below_one)), -30.0, 12.0));
    }
  }
  return Probability(sum);
}

CalibrationsByKind ReadCalibrations(const Json& json, const std::string& where) {
  CalibrationsByKind kinds;
  const JsonFields fields(json, where);
  for (const auto& [name, value] : json.items()) {
    if (IsPartOfCalibration(name)) {
      kinds[""] = ReadCalibration(fields);
    } else if (!value.is_null()) {
      kinds[name] = ReadCalibration(JsonFields(value, fmt::format("{}: '{}'", where, name)));
    }
  }
  return kinds;
}

Json JsonOf(const CalibrationsByKind& kinds) {
  Json written = Json::object();
  for (const auto& [kind, calibration] : kinds) {
    if (kind.empty()) {
      written.update(JsonOf(calibration));
    } else {
      written[kind] = JsonOf(calibration);
    }
  }
  return written;
}

}  // namespace banyan
