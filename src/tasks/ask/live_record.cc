#include "tasks/ask/live_record.h"

#include "base/json_row.h"

namespace banyan {

LiveRecord::LiveRecord(const InputRow& row, std::uint64_t number) : number_(number) {
  const Json id = row.value.value("id", Json());
  id_ = id.is_string() ? id.get<std::string>() : id.is_null() ? row.file : DumpJson(id);
}

void LiveRecord::Starts(const RecordWork& work) {
  questions_.resize(static_cast<size_t>(work.row_count()));
  for (size_t i = 0; i < questions_.size(); ++i) questions_[i].asked = work.QuestionOf(i);
}

void LiveRecord::End(size_t question, OutputRow row, std::string rest) {
  if (questions_.empty()) {  // the record did not start
    problem_ = row.error_message();
    return;
  }
  questions_[question].row = std::move(row);
  questions_[question].rest = std::move(rest);
}

void LiveRecord::Cancel(size_t question, const std::string& rest) {
  questions_[question].text += rest;
  questions_[question].cancelled = true;
}

bool LiveRecord::Show(bool name_document, AskListener& listener, AskTotals& totals) {
  if (!std::exchange(named_, true) && name_document) listener.Document(id_);
  if (!problem_.empty()) {
    ++totals.errors;
    listener.Failed(problem_);
    return true;
  }
  while (current_ < questions_.size()) {
    Question& question = questions_[current_];
    if (!std::exchange(question.announced, true)) listener.Question(question.asked);
    if (!question.text.empty()) {
      listener.Text(std::exchange(question.text, ""));
      question.began = true;
    }
    if (!question.row && !question.cancelled) return false;
    ShowEnd(question, listener, totals);
    ++current_;
  }
  return true;
}

void LiveRecord::ShowEnd(Question& question, AskListener& listener, AskTotals& totals) {
  if (question.cancelled) return listener.Answered(true);
  const OutputRow& row = rows_.emplace_back(std::move(*question.row));
  if (row.error) {
    ++totals.errors;
    return listener.Failed(row.error_message());
  }
  ++totals.answers;
  const auto confidence = row.fields.find("confidence");
  if (confidence != row.fields.end() && confidence->is_number()) {
    listener.Confidence(confidence->get<double>());
  }
  if (row.fields.at("answer").is_null() && !question.began) return listener.NoAnswer();
  if (!question.rest.empty()) listener.Text(question.rest);
  listener.Answered(row.fields.at("finish_reason") == "length");
}

}  // namespace banyan
