// One record on its way through an engine, for a job, the terminal or HTTP. Rounds of
// prompts go out, events come back, text and rows are given to a listener, or the rows at the end.
// Who submits prompts, and which thread does what, is the caller's:
//
//   RecordRun run(number, options);
//   run.Start(task, model, rows);
//   while (!run.done()) {
//     for (RecordPrompt& prompt : run.TakePrompts()) …   // submit it; Submitted or Refuse
//     … run.Receive(event) …                             // until the round is over
//     run.Digest();
//   }
//
// Many records in one thread: record_window.h. In several: text_workers.h.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "tasks/input/input.h"
#include "tasks/job/task.h"
#include "tasks/output/output.h"

namespace banyan {

// Tags as the engine has them: the record's number above the tag that the work gave.
inline constexpr int kWorkTagBits = 24;
constexpr std::uint64_t RecordOfTag(std::uint64_t tag) { return tag >> kWorkTagBits; }
constexpr std::uint64_t WorkTagOf(std::uint64_t tag) {
  return tag & ((std::uint64_t{1} << kWorkTagBits) - 1);
}

// A prompt of a record, ready to be submitted.
struct RecordPrompt {
  PromptSegment tree;
  std::int64_t answers = 0;
};

// Hears of records by their numbers, in the thread that calls Start, Refuse or Digest. What it
// throws goes through those.
class RecordListener {
 public:
  virtual ~RecordListener() = default;
  // The record's first prompts are made, so its rows are known. Not called for a record that cannot
  // be asked.
  virtual void Starts(std::uint64_t /*record*/, const RecordWork&) {}
  // A round of prompts, before any of them is submitted.
  virtual void Asks(std::uint64_t /*record*/, std::span<const RecordPrompt>) {}
  // More of an answer's text; nothing that is still to come changes it.
  virtual void Text(std::uint64_t /*record*/, size_t /*row*/, std::string) {}
  // A row, as soon as it can be made. `rest`: of its answer, what was no Text yet.
  virtual void Row(std::uint64_t record, size_t row, OutputRow made, std::string rest) = 0;
  // There will be no such row. `rest`: what was written and was no Text yet.
  virtual void Cancelled(std::uint64_t /*record*/, size_t /*row*/, std::string /*rest*/) {}
  // All rows were given.
  virtual void Done(std::uint64_t /*record*/) {}
};

struct RecordRunOptions {
  std::string adapter;                                // of rows that name none; empty: none
  int most_tokens = std::numeric_limits<int>::max();  // of any answer
  bool stream = false;                                // the listener hears Text
};

// Threads: one at a time, and Submitted, Refuse, Withdraw and Receive, which are quick, only under
// a lock that the caller has. From TakePrompts until the round is over, other threads than the one
// that submits may call Receive.
class RecordRun {
 public:
  // The record's number is below 2^40. Without a listener there are rows alone, by TakeRows.
  explicit RecordRun(std::uint64_t number, RecordRunOptions options = {},
                     RecordListener* listener = nullptr);

  // Asks of `rows` what the task makes of them. Rows with a problem, or that cannot be asked, get
  // error rows, and the record is done.
  void Start(Task& task, const Model& model, std::span<const InputRow> rows);
  // Asks what the work asks. Throws what its first prompts throw.
  void Start(std::unique_ptr<RecordWork> work);

  std::uint64_t number() const { return number_; }
  // Nothing more is to be asked; rows were given, or can be taken.
  bool done() const { return done_; }

  // --- A round. All four say whether it is over now: exactly one call of a round says so.
  // The round's prompts; none: there is no round.
  std::vector<RecordPrompt> TakePrompts();
  // A prompt of the round is with the engine.
  [[nodiscard]] bool Submitted();
  // A prompt of the round cannot be asked: nothing more of the record will be.
  [[nodiscard]] bool Refuse(std::int64_t answers, const Error& error);
  // A prompt of the round is not submitted, because the record was cancelled.
  [[nodiscard]] bool Withdraw(std::int64_t answers);
  // An event of one of the round's answers.
  [[nodiscard]] bool Receive(AnswerEvent event);

  // Gives what was received to the work, and what is new to the listener. When the round is over,
  // the next one begins, or the record is done.
  void Digest();

  // No further rounds; rows that cannot be made when this one is over are Cancelled.
  void Cancel() { cancelled_ = true; }
  // That, or an answer was cancelled.
  bool cancelled() const { return cancelled_; }

  // Into how many its text was split; known from Start on.
  size_t parts() const { return work_ ? work_->parts() : 1; }

  // --- How far it is
  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  // Rows none of whose answers is missing; some may still be asked about in a later round.
  std::int64_t answered_rows() const { return answered_rows_; }

  // Without a listener, when it is done: none, if it was cancelled.
  std::vector<OutputRow> TakeRows();

 private:
  struct RowState {
    LiveText text;             // of its plain answer
    std::int64_t missing = 0;  // answers
    bool asked = false;        // in this round or an earlier one
    bool given = false;        // to the listener
  };

  // Rounds
  void PrepareRound();
  void PrepareAnswers(PromptSegment& segment, std::int64_t& answers);
  void BeginRound();
  void NextRound();
  bool IsOver() const { return unsubmitted_ == 0 && missing_ == 0; }
  // Text and rows
  void Hear(AnswerEvent event);
  void GiveRow(size_t row, bool cancelled);
  void Fail(const Task& task, std::span<const InputRow> rows, const RowProblem& problem);
  void Finish();

  const std::uint64_t number_;
  RecordRunOptions options_;
  RecordListener* const listener_;     // null: none
  std::unique_ptr<RecordWork> work_;   // null: not begun, a problem, or all rows were given
  std::vector<OutputRow> error_rows_;  // of rows that cannot be asked
  std::vector<RecordPrompt> prompts_;  // of the round that was not taken yet
  size_t unsubmitted_ = 0;             // prompts of the round
  std::int64_t missing_ = 0;           // answers of the round
  std::vector<AnswerEvent> events_;    // received, not digested
  std::vector<RowState> rows_;
  std::int64_t answered_rows_ = 0;
  bool refused_ = false, cancelled_ = false, done_ = false;
};

}  // namespace banyan
