// Fields of a row in their order: free text with samples and votes, or choices with their scores.
#include "tasks/ask/ask_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "tasks/ask/ask_record.h"
#include "tasks/job/task.h"
#include "tasks/output/carried_fields.h"
#include "tasks/output/row_format.h"

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

// As the model's card calls the calibration of this score.
const char* CalibrationName(ChoiceScore score) {
  switch (score) {
    case ChoiceScore::kMean:
      return "choice-mean";
    case ChoiceScore::kPrior:
      return "choice-prior";
    case ChoiceScore::kSum:
      break;
  }
  return "choice-sum";
}

}  // namespace

OutputRow AskErrorRow(const Json& id, const Json& question_id, const Json& question,
                      const RowProblem& problem, const RowPlace& place, const Json& carried) {
  OutputRow row;
  row.error = true;
  row.fields["id"] = id;
  row.fields["question_id"] = question_id;
  if (!question.is_null()) row.fields["question"] = question;
  row.fields["error"] = ErrorAt(place, problem);
  row.identity = DumpJson(Json::array({id, question_id, "error", ErrorKindName(problem.kind)}));
  CarriedNames("ask").Add(carried, IsAskField, row.fields);
  return row;
}

// What decides, by option.
std::vector<double> ChoiceScorer::ScoresOf(const AskedQuestion& asked,
                                           const AskedPart& part) const {
  std::vector<double> scores;
  for (size_t i = 0; i < part.answers.size(); ++i) {
    const std::vector<float>& logprobs = part.answers[i].logprobs;
    const bool mean = options_.choice_score == ChoiceScore::kMean;
    scores.push_back(mean ? MeanOf(logprobs) : SumOf(logprobs));
    if (!asked.prior.answers.empty()) scores.back() -= SumOf(asked.prior.answers[i].logprobs);
  }
  return scores;
}

// The probability that the chosen option is right, from its share of the probability; nothing where
// the model's card has no calibration of this way of comparing options.
std::optional<double> ChoiceScorer::Confidence(const AskQuestion& question, double share) const {
  const std::string_view kind = IsLetterQuestion(options_, question)
                                    ? "choice-letter"
                                    : CalibrationName(options_.choice_score);
  const auto task = model_.card->confidence.find("ask");
  if (task == model_.card->confidence.end()) return std::nullopt;
  const auto found = task->second.find(kind);
  if (found == task->second.end()) return std::nullopt;
  return found->second.ProbabilityOf(std::log(share), 1);
}

void ChoiceScorer::Write(const AskQuestion& question, const AskedQuestion& asked,
                         OrderedJson& row) const {
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
  const AskedPart& part = asked.parts[best_part];
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
  const std::optional<double> confidence = Confidence(question, shares[choice]);
  const bool withheld = confidence && *confidence < options_.min_confidence;
  row["answer"] = withheld ? Json() : Json(question.choices[choice]);
  if (withheld) row["withheld"] = question.choices[choice];
  if (confidence) row["confidence"] = RowProbability(*confidence);
  row["finish_reason"] = "choice";
  row["tokens"] = part.answers[choice].tokens.size();
  row["prompt_tokens"] = part.prompt_tokens;
  row["choice"] = choice;
  if (IsLetterQuestion(options_, question)) {
    row["letter"] = std::string(1, static_cast<char>('A' + choice));
  }
  row["probabilities"] = probabilities;
  row["scores"] = OrderedJson{{"sum", sums}, {"mean", means}};
  if (!priors.empty()) row["scores"]["prior"] = priors;
  if (asked.parts.size() > 1) {
    row["part"] = best_part;
    row["parts"] = asked.parts.size();
  }
}

OutputRow AskRowWriter::Row(size_t question, const AskedQuestion& asked) const {
  const AskQuestion& wanted = record_.questions[question];
  OutputRow row;
  row.fields["id"] = record_.id;
  row.fields["question_id"] = wanted.id;
  row.fields["question"] = wanted.question;
  if (wanted.choices.empty()) {
    WriteFree(asked, row.fields);
  } else {
    choices_.Write(wanted, asked, row.fields);
  }
  if (asked.cut_bytes > 0) row.fields["truncated_bytes"] = asked.cut_bytes;
  OrderedJson identity = OrderedJson::array(
      {record_.id, wanted.id, row.fields["answer"], row.fields["finish_reason"]});
  if (row.fields.contains("choice")) identity.push_back(row.fields["choice"]);
  if (row.fields.contains("samples")) {
    for (const auto& sample : row.fields["samples"]) identity.push_back(sample["answer"]);
  }
  row.identity = DumpJson(identity);
  static const CarriedNames names("ask");
  names.Add(wanted.carried, nullptr, row.fields);
  names.Add(record_.carried, nullptr, row.fields);
  return row;
}

void AskRowWriter::WriteFree(const AskedQuestion& asked, OrderedJson& row) const {
  const AskedPart& part = ranking_.Best(asked);
  std::vector<AskAnswerText> texts;  // [samples]
  std::map<std::string, int> votes;
  for (const Answer& answer : part.answers) {
    texts.push_back(reader_.Read(answer, part));
    ++votes[ComparableAnswer(texts.back().answer)];
  }
  const auto votes_for = [&](size_t i) { return votes[ComparableAnswer(texts[i].answer)]; };
  size_t chosen = 0;
  for (size_t i = 0; options_.vote && i < texts.size(); ++i) {
    if (votes_for(i) > votes_for(chosen)) chosen = i;
  }
  const Answer& answer = part.answers[chosen];
  const AskAnswerText& text = texts[chosen];
  const bool is_null = reader_.IsNull(text.answer);
  const std::optional<double> confidence = reader_.Confidence(answer, is_null);
  const bool withheld = !is_null && confidence && *confidence < options_.min_confidence;
  row["answer"] = is_null || withheld ? Json() : Json(text.answer);
  if (withheld) row["withheld"] = text.answer;
  if (!is_null && !withheld) {
    if (const auto span = ranking_.PlaceOf(part, text.answer)) {
      row["start"] = span->start;
      row["end"] = span->end;
    }
  }
  if (confidence) row["confidence"] = RowProbability(*confidence);
  if (model_.copies && !part.copied) row["copied"] = false;
  // With a schema also as the value that it writes; an answer that was cut short writes none.
  if (!options_.json_schema.empty()) {
    OrderedJson value = OrderedJson::parse(text.answer, nullptr, /*allow_exceptions=*/false);
    row["value"] = value.is_discarded() ? OrderedJson() : std::move(value);
  }
  row["finish_reason"] = FinishReasonName(answer.finish);
  row["tokens"] = answer.tokens.size();
  row["prompt_tokens"] = part.prompt_tokens;
  if (!text.thinking.empty()) row["thinking"] = text.thinking;
  WriteTokens(answer, row);
  if (options_.samples > 1) {
    Json samples = Json::array();
    for (size_t i = 0; i < texts.size(); ++i) {
      Json sample = {{"answer", reader_.IsNull(texts[i].answer) ? Json() : Json(texts[i].answer)},
                     {"finish_reason", FinishReasonName(part.answers[i].finish)},
                     {"tokens", part.answers[i].tokens.size()}};
      if (!texts[i].thinking.empty()) sample["thinking"] = texts[i].thinking;
      if (options_.logprobs) sample["logprobs"] = RowNumbers(part.answers[i].logprobs);
      samples.push_back(std::move(sample));
    }
    row["samples"] = std::move(samples);
    if (options_.vote) row["votes"] = votes_for(chosen);
  }
  if (asked.parts.size() > 1) ranking_.Write(asked, part, row);
}

// What the options ask for beside the text: ids, log-probabilities, other likely tokens.
void AskRowWriter::WriteTokens(const Answer& answer, OrderedJson& row) const {
  if (options_.token_ids) row["token_ids"] = answer.tokens;
  if (options_.logprobs) row["logprobs"] = RowNumbers(answer.logprobs);
  if (options_.top_logprobs <= 0) return;
  Json top = Json::array();
  for (const std::vector<ScoredToken>& position : answer.top) {
    Json list = Json::array();
    for (const ScoredToken& scored : position) {
      list.push_back({{"token", scored.token},
                      {"text", reader_.Decode(std::span(&scored.token, 1), false)},
                      {"logprob", RowNumber(scored.logprob)}});
    }
    top.push_back(std::move(list));
  }
  row["top_logprobs"] = std::move(top);
}

}  // namespace banyan
