// Calibrations: how log-probabilities become the probability that an answer is right, and their
// JSON; then the card around them.
#include "load/model_card.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "model/json_fields.h"

namespace banyan {

namespace {

constexpr size_t kMostNullBytes = 64;

using Feature = Calibration::Feature;
// The calibrations of one task by kind of answer; "": all other kinds.
using CalibrationsByKind = std::map<std::string, Calibration, std::less<>>;

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

// Reads {"scale", "offset", "feature"?}, an object of these by kind, or both in one. Throws kFormat
// with `where` and the field.
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

const Calibration* ModelCard::CalibrationOf(std::string_view task, std::string_view kind) const {
  const auto kinds = confidence.find(task);
  if (kinds == confidence.end()) return nullptr;
  auto found = kinds->second.find(kind);
  if (found == kinds->second.end()) found = kinds->second.find("");
  return found == kinds->second.end() ? nullptr : &found->second;
}

std::string ModelCard::ToJson() const {
  Json json = {{"copies", copies}, {"null_text", null_text}};
  if (chooses_by_letter) json["choices"] = "letter";
  if (null_bias) json["null_bias"] = *null_bias;
  for (const auto& [task, kinds] : confidence) {
    json["confidence"][task] = JsonOf(kinds);
  }
  return json.dump();
}

ModelCard ReadModelCard(std::string_view json, const std::string& where) {
  if (json.size() > kMostCardBytes) {
    Throw(ErrorKind::kLimit, "{}: expected a card of at most {} bytes, found {}", where,
          kMostCardBytes, json.size());
  }
  const Json object = ParseJson(json, where);
  const JsonFields fields(object, where);
  ModelCard card;
  card.copies = fields.FindBool("copies").value_or(false);
  card.null_text = fields.FindString("null_text").value_or(card.null_text);
  if (card.null_text.empty() || card.null_text.size() > kMostNullBytes ||
      card.null_text.find_first_of("\r\n") != std::string::npos) {
    Throw(ErrorKind::kFormat, "{}: 'null_text': expected one line of 1 to {} bytes, found '{}'",
          where, kMostNullBytes, card.null_text);
  }
  if (const std::optional<std::string> choices = fields.FindString("choices")) {
    if (*choices != "letter" && *choices != "score") {
      Throw(ErrorKind::kFormat, "{}: 'choices': expected letter or score, found '{}'", where,
            *choices);
    }
    card.chooses_by_letter = *choices == "letter";
  }
  card.null_bias = fields.FindNumber("null_bias");
  const Json* confidence = fields.Find("confidence");
  if (confidence == nullptr) return card;
  if (!confidence->is_object()) fields.WrongType("confidence", *confidence, "an object");
  for (const auto& [task, value] : confidence->items()) {
    if (value.is_null()) continue;
    card.confidence[task] =
        ReadCalibrations(value, fmt::format("{}: 'confidence': '{}'", where, task));
  }
  return card;
}

std::optional<ModelCard> ModelCardOfFolder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kModelCardFile;
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return std::nullopt;
  return ReadModelCard(ReadTextFile(file, kMostCardBytes), file.string());
}

std::optional<ModelCard> ModelCardOfGguf(const GgufFile& gguf) {
  const std::optional<std::string> card = gguf.metadata().FindString(kModelCardKey);
  if (!card) return std::nullopt;
  return ReadModelCard(*card, fmt::format("{}: '{}'", gguf.path(), kModelCardKey));
}

ModelCard CardWithAdapter(const ModelCard& model, const std::optional<ModelCard>& adapter) {
  if (adapter) return *adapter;
  ModelCard habits;
  habits.copies = model.copies;
  habits.null_text = model.null_text;
  return habits;
}

}  // namespace banyan
