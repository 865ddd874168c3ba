// Questions with choices: which option the model finds most likely, and how likely each is.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tasks/ask/ask_work.h"
#include "tasks/output/row_numbers.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Shares that add up to 1, in the proportion of exp(score).
std::vector<double> Shares(const std::vector<double>& scores) {
  const double best = *std::ranges::max_element(scores);
  std::vector<double> shares;
  double sum = 0.0;
  for (const double score : scores) {
    shares.push_back(std::isfinite(best) ? std::exp(score - best) : 1.0);
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

// Every option once more, after the prompt without a document.
void AskWork::AddPrior(size_t question) {
  if (settings_.options.choice_score != ChoiceScore::kPrior || IsLetterQuestion(question)) return;
  if (record_.questions[question].choices.empty()) return;
  AddTo(question, kPriorPart, Encode(question, ""));
}

// What decides, by option.
std::vector<double> AskWork::ScoresOf(const Asked& asked, const Part& part) const {
  std::vector<double> scores;
  for (size_t i = 0; i < part.answers.size(); ++i) {
    const std::vector<float>& logprobs = part.answers[i].logprobs;
    const bool mean = settings_.options.choice_score == ChoiceScore::kMean;
    scores.push_back(mean ? MeanOf(logprobs) : SumOf(logprobs));
    if (!asked.prior.answers.empty()) scores.back() -= SumOf(asked.prior.answers[i].logprobs);
  }
  return scores;
}

// The probability that the chosen option is right, from its share of the probability; nothing where
// the model's card has no calibration of this way of comparing options.
std::optional<double> AskWork::ChoiceConfidence(size_t question, double share) const {
  const char* kind = "choice-letter";
  if (!IsLetterQuestion(question)) {
    switch (settings_.options.choice_score) {
      case ChoiceScore::kSum:
        kind = "choice-sum";
        break;
      case ChoiceScore::kMean:
        kind = "choice-mean";
        break;
      case ChoiceScore::kPrior:
        kind = "choice-prior";
        break;
    }
  }
  const auto task = model_.card->confidence.find("ask");
  if (task == model_.card->confidence.end()) return std::nullopt;
  const auto found = task->second.find(std::string_view(kind));
  if (found == task->second.end()) return std::nullopt;
  return found->second.ProbabilityOf(std::log(share), 1);
}

void AskWork::WriteChoice(size_t question, OrderedJson& row) const {
  const AskQuestion& wanted = record_.questions[question];
  const Asked& asked = asked_[question];
  size_t best_part = 0, choice = 0;
  double best = -std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < asked.parts.size(); ++p) {
    const std::vector<double> scores = ScoresOf(asked, asked.parts[p]);
    for (size_t i = 0; i < scores.size(); ++i) {
      if (!(scores[i] > best)) continue;
      best = scores[i];
      best_part = p;
      choice = i;
    }
  }
  const Part& part = asked.parts[best_part];
  Json sums = Json::array(), means = Json::array(), priors = Json::array();
  for (const Answer& answer : part.answers) {
    sums.push_back(RowNumber(SumOf(answer.logprobs)));
    means.push_back(RowNumber(MeanOf(answer.logprobs)));
  }
  for (const Answer& answer : asked.prior.answers) {
    priors.push_back(RowNumber(SumOf(answer.logprobs)));
  }
  Json probabilities = Json::array();
  const std::vector<double> shares = Shares(ScoresOf(asked, part));
  for (const double share : shares) probabilities.push_back(RowProbability(share));
  const std::optional<double> confidence = ChoiceConfidence(question, shares[choice]);
  const bool withheld = confidence && *confidence < settings_.options.min_confidence;
  row["answer"] = withheld ? Json() : Json(wanted.choices[choice]);
  if (withheld) row["withheld"] = wanted.choices[choice];
  if (confidence) row["confidence"] = RowProbability(*confidence);
  row["finish_reason"] = "choice";
  row["tokens"] = part.answers[choice].tokens.size();
  row["prompt_tokens"] = part.prompt_tokens;
  row["choice"] = choice;
  if (IsLetterQuestion(question)) row["letter"] = std::string(1, static_cast<char>('A' + choice));
  row["probabilities"] = probabilities;
  row["scores"] = OrderedJson{{"sum", sums}, {"mean", means}};
  if (!priors.empty()) row["scores"]["prior"] = priors;
  if (asked.parts.size() > 1) {
    row["part"] = best_part;
    row["parts"] = asked.parts.size();
  }
}

}  // namespace banyan
