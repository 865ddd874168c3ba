// Token ids to text; confidence by the model card's calibration; the null bias at the first token.
#include "tasks/ask/ask_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/characters.h"
#include "tasks/job/task.h"

namespace banyan {
namespace {

// The log-probability that is left for all other first tokens: none of them has more.
double MostOfOthers(double logprob) { return std::log1p(-std::exp(std::min(logprob, 0.0))); }

}  // namespace

AskedPart& AskedQuestion::PartAt(size_t number) {
  if (number == kPriorPart) return prior;
  return number == kReducedPart ? reduced : parts[number];
}

bool AnswerReader::IsNull(const std::string& answer) const {
  return SaysNothing(answer, model_.card->null_text);
}

std::string AnswerReader::Decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::vector<TokenId> known;
  const int vocabulary = settings_.text->vocab_size();
  std::ranges::copy_if(tokens, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocabulary; });
  return settings_.text->Decode(known, skip_special);
}

AskAnswerText AnswerReader::Read(const Answer& answer, const AskedPart& part) const {
  std::string text = answer.finish == FinishReason::kStopString
                         ? answer.text
                         : Decode(answer.tokens, /*skip_special=*/true);
  // A copy that was cut short ends with its last whole word.
  if (part.copied && answer.finish == FinishReason::kLength) {
    while (!text.empty() && !part.copied->Matches(text)) text.pop_back();
  }
  if (settings_.options.thinking) {
    if (const auto split = settings_.text->SplitChannels(answer.tokens)) {
      return {std::string(Trimmed(split->answer)), std::string(Trimmed(split->thinking))};
    }
  }
  AskAnswerText read{std::string(Trimmed(text)), ""};
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t thought = read.answer.rfind(kEnd);
  if (!settings_.options.thinking || thought == std::string::npos) return read;
  read.thinking = Trimmed(read.answer.substr(0, thought));
  if (read.thinking.starts_with(kBegin)) {
    read.thinking = Trimmed(read.thinking.substr(kBegin.size()));
  }
  read.answer = Trimmed(read.answer.substr(thought + kEnd.size()));
  return read;
}

// Calibrations are of answers as the model gives them, not of thoughts and forced shapes.
std::optional<double> AnswerReader::Confidence(const Answer& answer, bool is_null) const {
  if (settings_.options.thinking || settings_.constraint) return std::nullopt;
  const Calibration* calibration = model_.card->CalibrationOf("ask", is_null ? "null" : "answer");
  if (calibration == nullptr) return std::nullopt;
  return calibration->Probability(answer.logprobs);
}

NullBias::NullBias(const AskOptions& options, const AskModel& model, const AnswerReader& reader)
    : reader_(reader) {
  const bool counts = model.copies && options.samples == 1 && options.sampling.temperature <= 0.0f;
  if (counts) bias_ = model.card->null_bias.value_or(0.0);
}

bool NullBias::MayTurn(double first_logprob, bool is_null) const {
  const double others = MostOfOthers(first_logprob);
  if (is_null) return bias_ < 0.0 && first_logprob + bias_ < others;
  return bias_ > 0.0 && first_logprob < others + bias_;
}

bool NullBias::IsUndecided(const AskedPart& part) const {
  if (!part.copied || part.answers.front().logprobs.empty()) return false;
  return MayTurn(part.answers.front().logprobs.front(), reader_.FirstIsNull(part));
}

void NullBias::Decide(AskedPart& part) const {
  if (part.other.logprobs.empty() || part.answers.front().logprobs.empty()) return;
  const double said = part.answers.front().logprobs.front(), other = part.other.logprobs.front();
  const bool is_null = reader_.FirstIsNull(part);
  const bool turns = is_null ? other > said + bias_ : other + bias_ > said;
  if (!turns) return;
  if (!is_null) part.other.finish = FinishReason::kStopToken;
  part.answers.front() = std::move(part.other);
}

}  // namespace banyan
