#include "tasks/job/record_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tasks/input/input.h"

namespace banyan {
namespace {

constexpr int kRecordBits = 64 - kWorkTagBits;

std::uint64_t PackedTag(std::uint64_t record, std::uint64_t work_tag) {
  if (work_tag >> kWorkTagBits != 0) {
    Throw(ErrorKind::kLimit, "the record asks for more than {} answers", 1 << kWorkTagBits);
  }
  return record << kWorkTagBits | work_tag;
}

}  // namespace

RecordRun::RecordRun(std::uint64_t number, RecordRunOptions options, RecordListener* listener)
    : number_(number), options_(std::move(options)), listener_(listener) {
  BANYAN_CHECK(number >> kRecordBits == 0);
}

// --- Rounds

void RecordRun::Start(Task& task, const Model& model, std::span<const InputRow> rows) {
  std::optional<RowProblem> problem = rows.front().problem;
  if (!problem) {
    try {
      std::string adapter = AdapterOfRow(rows.front(), model);
      if (!adapter.empty()) options_.adapter = std::move(adapter);
      work_ = rows.size() == 1 ? task.Start(rows.front()) : task.StartStack(rows);
      PrepareRound();
    } catch (const std::exception& thrown) {
      problem = ProblemOf(thrown);
    }
  }
  if (problem) return Fail(task, rows, *problem);
  if (listener_) listener_->Starts(number_, *work_);
  BeginRound();
}

void RecordRun::Start(std::unique_ptr<RecordWork> work) {
  work_ = std::move(work);
  PrepareRound();
  if (listener_) listener_->Starts(number_, *work_);
  BeginRound();
}

void RecordRun::Fail(const Task& task, std::span<const InputRow> rows, const RowProblem& problem) {
  work_.reset();
  prompts_.clear();
  rows_.resize(rows.size());
  answered_rows_ = this->rows();
  done_ = true;
  for (const InputRow& row : rows) error_rows_.push_back(task.ErrorRow(row, problem));
  if (!listener_) return;
  for (size_t i = 0; i < rows.size(); ++i) listener_->Row(number_, i, error_rows_[i], "");
  listener_->Done(number_);
}

// Makes prompts_ of what the work asks next.
void RecordRun::PrepareRound() {
  std::vector<PromptSegment> trees = work_->NextPrompts();
  rows_.resize(static_cast<size_t>(work_->row_count()));
  for (RowState& row : rows_) row.missing = 0;
  for (PromptSegment& tree : trees) {
    RecordPrompt& prompt = prompts_.emplace_back();
    tree.adapter = options_.adapter;
    PrepareAnswers(tree, prompt.answers);
    prompt.tree = std::move(tree);
  }
}

void RecordRun::PrepareAnswers(PromptSegment& segment, std::int64_t& answers) {
  for (AnswerRequest& answer : segment.answers) {
    const std::uint64_t tag = answer.tag;
    answer.tag = PackedTag(number_, tag);
    answer.max_new = std::min(answer.max_new, options_.most_tokens);
    answer.stream = options_.stream && work_->IsPlain(tag);
    RowState& row = rows_[work_->RowOf(tag)];
    row.asked = true;
    ++row.missing;
    ++answers;
  }
  // They name the answer that they help to write.
  for (ExpertRequest& expert : segment.experts) expert.tag = PackedTag(number_, expert.tag);
  for (PromptSegment& below : segment.below) PrepareAnswers(below, answers);
}

void RecordRun::BeginRound() {
  if (prompts_.empty()) return Finish();
  if (listener_) listener_->Asks(number_, prompts_);
  answered_rows_ = 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const bool answered = work_->IsAnswered(row);
    if (answered || (rows_[row].asked && rows_[row].missing == 0)) ++answered_rows_;
    if (answered && listener_) GiveRow(row, /*cancelled=*/false);
  }
}

void RecordRun::NextRound() {
  if (refused_ || cancelled_) return Finish();
  try {
    PrepareRound();
  } catch (const std::exception& thrown) {
    const RowProblem problem = ProblemOf(thrown);
    work_->Refuse(Error(problem.kind, problem.message));
    prompts_.clear();
  }
  BeginRound();
}

std::vector<RecordPrompt> RecordRun::TakePrompts() {
  unsubmitted_ = prompts_.size();
  missing_ = 0;
  for (const RecordPrompt& prompt : prompts_) missing_ += prompt.answers;
  return std::exchange(prompts_, {});
}

bool RecordRun::Submitted() {
  --unsubmitted_;
  return IsOver();
}

bool RecordRun::Refuse(std::int64_t answers, const Error& error) {
  work_->Refuse(error);
  refused_ = true;
  missing_ -= answers;
  return Submitted();
}

bool RecordRun::Withdraw(std::int64_t answers) {
  cancelled_ = true;
  missing_ -= answers;
  return Submitted();
}

bool RecordRun::Receive(AnswerEvent event) {
  if (event.ended) {
    --missing_;
    cancelled_ |= event.answer.finish == FinishReason::kCancelled;
    if (--rows_[work_->RowOf(WorkTagOf(event.tag))].missing == 0) ++answered_rows_;
  }
  events_.push_back(std::move(event));
  return IsOver();
}

// --- Text and rows

void RecordRun::Digest() {
  for (AnswerEvent& event : std::exchange(events_, {})) Hear(std::move(event));
  if (!done_ && IsOver() && prompts_.empty()) NextRound();
}

void RecordRun::Hear(AnswerEvent event) {
  const std::uint64_t tag = WorkTagOf(event.tag);
  const size_t row = work_->RowOf(tag);
  RowState& state = rows_[row];
  if (options_.stream && work_->IsPlain(tag)) {
    work_->Hear(tag, event.logprobs);
    state.text.Add(event.text);
    std::string text = state.text.Take(work_->ShowRules(tag));
    if (!text.empty() && !state.given) listener_->Text(number_, row, std::move(text));
  }
  if (!event.ended) return;
  const bool cancelled = event.answer.finish == FinishReason::kCancelled;
  event.answer.tag = tag;
  work_->Take(std::move(event.answer));
  if (!listener_) return;
  if (cancelled || work_->IsAnswered(row)) return GiveRow(row, cancelled);
  // What was written and is asked about again is not shown.
  if (!state.text.began()) state.text.Clear();
}

// The row, or that there will be none, unless the listener has heard of it already.
void RecordRun::GiveRow(size_t row, bool cancelled) {
  RowState& state = rows_[row];
  if (std::exchange(state.given, true)) return;
  if (cancelled) return listener_->Cancelled(number_, row, state.text.TakeAll());
  OutputRow made = work_->Row(row);
  std::string rest;
  const auto answer = made.fields.find("answer");
  if (options_.stream && answer != made.fields.end() && answer->is_string()) {
    rest = state.text.TakeRest(answer->get_ref<const std::string&>());
  }
  listener_->Row(number_, row, std::move(made), std::move(rest));
}

void RecordRun::Finish() {
  done_ = true;
  answered_rows_ = rows();
  if (!listener_) return;
  for (size_t row = 0; row < rows_.size(); ++row) {
    GiveRow(row, cancelled_ && !work_->IsAnswered(row));
  }
  work_.reset();
  listener_->Done(number_);
}

std::vector<OutputRow> RecordRun::TakeRows() {
  if (!error_rows_.empty()) return std::exchange(error_rows_, {});
  if (cancelled_) return {};
  std::vector<OutputRow> rows = work_->Rows();
  work_.reset();
  return rows;
}

}  // namespace banyan
