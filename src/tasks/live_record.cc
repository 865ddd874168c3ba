#include "tasks/live_record.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/row_adapter.h"

namespace banyan {
namespace {

void MarkAll(PromptSegment& segment, std::uint64_t tag_bits) {
  for (AnswerRequest& answer : segment.answers) {
    answer.tag |= tag_bits;
    answer.stream = true;
  }
  for (PromptSegment& below : segment.below) MarkAll(below, tag_bits);
}

}  // namespace

LiveRecord::LiveRecord(AskTask& task, const Model& model, InputRow row, std::uint64_t sequence)
    : sequence_(sequence) {
  const Json id = row.value.value("id", Json());
  id_ = id.is_string() ? id.get<std::string>() : id.is_null() ? row.file : DumpJson(id);
  const std::string where =
      row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
  if (row.problem) {
    problem_ = fmt::format("{}: {}", where, row.problem->message);
    return;
  }
  try {
    adapter_ = AdapterOfRow(row, model);
    work_ = task.StartAsk(row);
    questions_.resize(static_cast<size_t>(work_->row_count()));
  } catch (const std::exception& e) {
    problem_ = fmt::format("{}: {}", where, e.what());
  }
}

void LiveRecord::SubmitTo(Engine& engine) {
  if (!work_) return;
  for (PromptSegment& prompt : work_->NextPrompts()) {
    MarkAll(prompt, sequence_ << kTagBits);
    prompt.adapter = adapter_;
    try {
      requests_.push_back(engine.Submit(std::move(prompt)));
    } catch (const Error& e) {
      work_->Refuse(e);
    }
  }
}

void LiveRecord::CancelIn(Engine& engine) {
  for (const RequestId request : requests_) engine.Cancel(request);
}

void LiveRecord::Take(AnswerEvent event) {
  const std::uint64_t tag = event.tag & ((std::uint64_t{1} << kTagBits) - 1);
  Question& question = questions_[work_->QuestionOf(tag)];
  if (work_->IsPlain(tag)) {
    work_->Hear(tag, event.logprobs);
    question.text.Add(event.text);
    question.showable += question.text.Take(work_->ShowRules(tag));
  }
  if (!event.ended) return;
  question.cancelled |= event.answer.finish == FinishReason::kCancelled;
  if (question.cancelled) question.showable += question.text.TakeAll();
  event.answer.tag = tag;
  work_->Take(std::move(event.answer));
  // What was written and is asked about again is not shown.
  if (!question.text.began() && !work_->IsAnswered(work_->QuestionOf(tag))) question.text.Clear();
}

bool LiveRecord::has_text() const {
  return current_ < questions_.size() && questions_[current_].text.began();
}

bool LiveRecord::Show(bool name_document, AskListener& listener, AskTotals& totals) {
  if (!std::exchange(named_, true) && name_document) listener.Document(id_);
  if (!work_) {
    ++totals.errors;
    listener.Failed(problem_);
    return true;
  }
  while (current_ < questions_.size()) {
    Question& question = questions_[current_];
    if (!std::exchange(question.announced, true)) {
      listener.Question(work_->QuestionText(current_));
    }
    const bool ended = work_->IsAnswered(current_);
    if (!question.showable.empty()) listener.Text(std::exchange(question.showable, ""));
    if (!ended) return false;
    ShowEnd(current_, listener, totals);
    ++current_;
  }
  return true;
}

void LiveRecord::ShowEnd(size_t index, AskListener& listener, AskTotals& totals) {
  Question& question = questions_[index];
  if (question.cancelled) return listener.Answered(true);
  const OutputRow row = work_->Row(index);
  if (row.error) {
    ++totals.errors;
    return listener.Failed(row.error_message());
  }
  ++totals.answers;
  const auto& answer = row.fields.at("answer");
  if (answer.is_null() && !question.text.began()) return listener.NoAnswer();
  const std::string rest =
      question.text.TakeRest(answer.is_string() ? answer.get<std::string>() : std::string());
  if (!rest.empty()) listener.Text(rest);
  listener.Answered(row.fields.at("finish_reason") == "length");
}

}  // namespace banyan
