// What a model or an adapter says about itself: whether its answers are spans of the text, and how
// sure it may be believed to be. docs/model-card.md has the format.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace banyan {

// The probability that an answer is right, fitted on answers whose truth was known:
// sigmoid(scale * x + offset), where x is a feature of the answer's tokens.
struct Calibration {
  // The mean or the sum of the tokens' log-probabilities, or the log-odds of the probability with
  // which the model wrote all of them: ln(p / (1 - p)), from -30 to 12.
  enum class Feature { kMeanLogprob, kSumLogprob, kLogOdds };
  Feature feature = Feature::kMeanLogprob;
  double scale = 0.0, offset = 0.0;

  double Probability(double x) const;
  // The same from the sum of an answer's log-probabilities and its number of tokens.
  double ProbabilityOf(double sum, int tokens) const;
  // Of the log-probabilities of all of an answer's tokens, as rows have them in `logprobs`. The
  // mean of none is 0.
  double Probability(std::span<const float> logprobs) const;
};

struct ModelCard {
  bool copies = false;             // answers are spans of the text
  std::string null_text = "null";  // what it writes when the text does not say
  // Added to the log-odds of `null_text` against the best answer; nothing: 0, not measured.
  std::optional<double> null_bias;
  // By task ("ask", "extract", "rag"), then by kind of answer, which the task names. The kind "" is
  // every other one.
  std::map<std::string, std::map<std::string, Calibration, std::less<>>, std::less<>> confidence;

  // Null: not calibrated.
  const Calibration* CalibrationOf(std::string_view task, std::string_view kind = "") const;
  // As the file says it, without what was not understood: equal cards have equal texts.
  std::string ToJson() const;
};

}  // namespace banyan
