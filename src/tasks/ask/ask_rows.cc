// The answers of a record → rows of the output.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json_row.h"
#include "base/spaces.h"
#include "tasks/ask/ask_work.h"
#include "tasks/job/null_answer.h"
#include "tasks/output/row_numbers.h"
#include "text/span.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

}  // namespace

bool AskWork::SaysNothingHere(const std::string& answer) const {
  return SaysNothing(answer, null_text());
}

OutputRow AskErrorRow(const Json& id, const Json& question_id, const Json& question,
                      const RowProblem& problem, const RowPlace& place) {
  OutputRow row;
  row.error = true;
  row.fields["id"] = id;
  row.fields["question_id"] = question_id;
  if (!question.is_null()) row.fields["question"] = question;
  row.fields["error"] = ErrorAt(place, problem);
  row.identity = DumpJson(Json::array({id, question_id, "error", ErrorKindName(problem.kind)}));
  return row;
}

OutputRow AskWork::Row(size_t question) {
  OutputRow row;
  // What cannot become a row is that row's error and nobody else's.
  Guarded(question, [&] { row = AnswerRow(question); });
  if (!asked_[question].problem) return row;
  const AskQuestion& asked = record_.questions[question];
  return AskErrorRow(record_.id, asked.id, asked.question.empty() ? Json() : Json(asked.question),
                     *asked_[question].problem, place_);
}

OutputRow AskWork::AnswerRow(size_t question) {
  const AskQuestion& wanted = record_.questions[question];
  const Asked& asked = asked_[question];
  OutputRow row;
  row.fields["id"] = record_.id;
  row.fields["question_id"] = wanted.id;
  row.fields["question"] = wanted.question;
  if (wanted.choices.empty()) {
    WriteFree(asked, row.fields);
  } else {
    WriteChoice(question, row.fields);
  }
  if (asked.cut_bytes > 0) row.fields["truncated_bytes"] = asked.cut_bytes;
  OrderedJson identity = OrderedJson::array(
      {record_.id, wanted.id, row.fields["answer"], row.fields["finish_reason"]});
  if (row.fields.contains("choice")) identity.push_back(row.fields["choice"]);
  if (row.fields.contains("samples")) {
    for (const auto& sample : row.fields["samples"]) identity.push_back(sample["answer"]);
  }
  row.identity = DumpJson(identity);
  // The input's other fields; one that is named like ours keeps its value under another name.
  const OrderedJson ours = row.fields;
  for (const Json* fields : std::initializer_list<const Json*>{&wanted.carried, &record_.carried}) {
    for (const auto& [name, value] : fields->items()) {
      const bool taken = ours.contains(name) || name == "error";
      const std::string free_name = taken ? "input_" + name : name;
      if (!row.fields.contains(free_name)) row.fields[free_name] = value;
    }
  }
  return row;
}

// Models with padded vocabularies may choose ids that the tokenizer does not have: they say
// nothing.
std::string AskWork::Decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::vector<TokenId> known;
  const int vocabulary = settings_.text->vocab_size();
  std::ranges::copy_if(tokens, std::back_inserter(known),
                       [&](TokenId token) { return token >= 0 && token < vocabulary; });
  return settings_.text->Decode(known, skip_special);
}

AskWork::Said AskWork::WhatWasSaid(const Answer& answer, const Part& part) const {
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
  Said said{std::string(Trimmed(text)), ""};
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t thought = said.answer.rfind(kEnd);
  if (!settings_.options.thinking || thought == std::string::npos) return said;
  said.thinking = Trimmed(said.answer.substr(0, thought));
  if (said.thinking.starts_with(kBegin)) {
    said.thinking = Trimmed(said.thinking.substr(kBegin.size()));
  }
  said.answer = Trimmed(said.answer.substr(thought + kEnd.size()));
  return said;
}

// The probability that an answer is right; nothing where the model's card does not say how to tell.
// Calibrations are of answers as the model gives them, not of thoughts and forced shapes.
std::optional<double> AskWork::ConfidenceOf(const Answer& answer, bool nothing) const {
  if (settings_.options.thinking || settings_.constraint) return std::nullopt;
  const Calibration* calibration = model_.card->CalibrationOf("ask", nothing ? "null" : "answer");
  if (calibration == nullptr) return std::nullopt;
  return calibration->Probability(answer.logprobs);
}

void AskWork::WriteFree(const Asked& asked, OrderedJson& row) const {
  const AskOptions& options = settings_.options;
  const Part& best = asked.parts[BestPart(asked)];
  const Part& part = ReducedCounts(asked, best) ? asked.reduced : best;
  std::vector<Said> samples_said;
  std::map<std::string, int> votes;
  for (const Answer& answer : part.answers) {
    samples_said.push_back(WhatWasSaid(answer, part));
    ++votes[ComparableAnswer(samples_said.back().answer)];
  }
  const auto votes_for = [&](size_t i) { return votes[ComparableAnswer(samples_said[i].answer)]; };
  size_t chosen = 0;
  for (size_t i = 0; options.vote && i < samples_said.size(); ++i) {
    if (votes_for(i) > votes_for(chosen)) chosen = i;
  }
  const Answer& answer = part.answers[chosen];
  const Said& said = samples_said[chosen];
  const bool nothing = SaysNothingHere(said.answer);
  const std::optional<double> confidence = ConfidenceOf(answer, nothing);
  const bool withheld = !nothing && confidence && *confidence < options.min_confidence;
  row["answer"] = nothing || withheld ? Json() : Json(said.answer);
  if (withheld) row["withheld"] = said.answer;
  if (!nothing && !withheld) {
    if (const auto span = PlaceOf(part, said.answer)) {
      row["start"] = span->start;
      row["end"] = span->end;
    }
  }
  if (confidence) row["confidence"] = RowProbability(*confidence);
  if (model_.copies && !part.copied) row["copied"] = false;
  // With a schema also as what it says; an answer that was cut short says nothing.
  if (!options.json_schema.empty()) {
    OrderedJson value = OrderedJson::parse(said.answer, nullptr, /*allow_exceptions=*/false);
    row["value"] = value.is_discarded() ? OrderedJson() : std::move(value);
  }
  row["finish_reason"] = FinishReasonName(answer.finish);
  row["tokens"] = answer.tokens.size();
  row["prompt_tokens"] = part.prompt_tokens;
  if (!said.thinking.empty()) row["thinking"] = said.thinking;
  if (options.token_ids) row["token_ids"] = answer.tokens;
  if (options.logprobs) row["logprobs"] = RowNumbers(answer.logprobs);
  if (options.top_logprobs > 0) {
    Json top = Json::array();
    for (const std::vector<ScoredToken>& position : answer.top) {
      Json list = Json::array();
      for (const ScoredToken& scored : position) {
        list.push_back({{"token", scored.token},
                        {"text", Decode(std::span(&scored.token, 1), false)},
                        {"logprob", RowNumber(scored.logprob)}});
      }
      top.push_back(std::move(list));
    }
    row["top_logprobs"] = std::move(top);
  }
  if (options.samples > 1) {
    Json samples = Json::array();
    for (size_t i = 0; i < samples_said.size(); ++i) {
      const std::string& text = samples_said[i].answer;
      Json sample = {{"answer", SaysNothingHere(text) ? Json() : Json(text)},
                     {"finish_reason", FinishReasonName(part.answers[i].finish)},
                     {"tokens", part.answers[i].tokens.size()}};
      if (!samples_said[i].thinking.empty()) sample["thinking"] = samples_said[i].thinking;
      if (options.logprobs) sample["logprobs"] = RowNumbers(part.answers[i].logprobs);
      samples.push_back(std::move(sample));
    }
    row["samples"] = std::move(samples);
    if (options.vote) row["votes"] = votes_for(chosen);
  }
  if (asked.parts.size() > 1) WriteParts(asked, part, row);
}

}  // namespace banyan
