// The interface of a task: a record becomes prompts, answers become rows. The rest is the same for
// all tasks: reading, feeding the engine, order, errors, resuming. A record is a row of
// the input; where a task stacks rows, several that follow one another.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/engine.h"
#include "tasks/input/input.h"
#include "tasks/output/output.h"

namespace banyan {

// An answer's text while it is written: what of it can be shown, because nothing that is still to
// come changes it.
class LiveText {
 public:
  struct Rules {
    std::string null_text = "null";  // text that may still become it is held back
    bool sure = true;                // false: another answer may take its place; all is held back
    bool whole_words = false;        // a last word may be cut off at the end; it is held back
  };

  void Add(std::string_view text) { text_ += text; }
  // What was written is not the answer. REQUIRES: !began().
  void Clear() { text_.clear(); }
  // The text that can be shown and was not taken yet, without the space around the answer.
  std::string Take(const Rules& rules);
  // All that was written and was not taken, whatever it may become.
  std::string TakeAll();
  // What was not taken of the answer as its row has it.
  std::string TakeRest(std::string_view answer);
  bool began() const { return taken_ > 0; }

 private:
  std::string TakeUntil(size_t end);
  std::string_view Answer() const;  // the text without the space around it

  std::string text_;
  size_t taken_ = 0;  // bytes of Answer()
};

// --- Answers that say that there is none

// For comparing answers: case, punctuation around and space do not make two different.
std::string ComparableAnswer(const std::string& answer);
// The answer of a model that finds none: no words, or `null_text`, whatever its case and
// punctuation.
bool SaysNothing(const std::string& answer, const std::string& null_text = "null");
// What was written so far may still become that.
bool MayBecomeNothing(std::string_view text, const std::string& null_text = "null");

// One record: what it asks, and what becomes of the answers. RecordRun (record_run.h) takes it
// through an engine. An answer has a tag of the work's own, below 2^24 and used once.
class RecordWork {
 public:
  virtual ~RecordWork() = default;
  // What to ask next; nothing when the record is done. Called at the start and again whenever all
  // answers are in, so that a task may ask in stages.
  virtual std::vector<PromptSegment> NextPrompts() = 0;
  virtual void Take(Answer answer) = 0;
  // Something of what was asked cannot be. Answers to the rest still come; nothing more is asked.
  virtual void Refuse(const Error& error) = 0;

  // --- Rows: the answers to the record's questions, or the values of its documents
  // How many come, and what is known to be wrong with some, once the prompts are made.
  virtual std::int64_t row_count() const { return 1; }
  virtual std::vector<RowProblem> Problems() const { return {}; }
  // REQUIRES: the record is done, or IsAnswered.
  virtual OutputRow Row(size_t row) = 0;
  std::vector<OutputRow> Rows();
  // Into how many its text was split, because it is longer than the model reads at once.
  virtual size_t parts() const { return 1; }
  // The row can be made although the record is not done.
  virtual bool IsAnswered(size_t) const { return false; }
  // The row that an answer is for.
  virtual size_t RowOf(std::uint64_t) const { return 0; }
  // The question that the row answers, as it was asked; empty: none.
  virtual std::string QuestionOf(size_t) const { return ""; }

  // --- Text that is shown while it is written
  // The answer's text is what its row says, or the row says that there is no answer.
  virtual bool IsPlain(std::uint64_t) const { return false; }
  // The next tokens of a plain answer have these log-probabilities.
  virtual void Hear(std::uint64_t, std::span<const float>) {}
  // How much of a plain answer can be shown, as far as it was heard.
  virtual LiveText::Rules ShowRules(std::uint64_t) const { return {}; }
};

// Where a record stands in the input, for error rows.
struct RowPlace {
  std::string file;
  std::int64_t line = 0;
};
// The field `error` of an error row; its message begins with the place.
nlohmann::ordered_json ErrorAt(const RowPlace& place, const RowProblem& problem);

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string name() const = 0;
  // Everything that changes answers or rows, by the name a user knows.
  virtual Json Parameters() const = 0;
  // What may not come twice in an input: the record's id, and what goes with it. Throws kInput when
  // the row has no usable one.
  virtual std::string Identity(const InputRow& row) const = 0;
  // Throws Error when nothing of the record can be asked.
  virtual std::unique_ptr<RecordWork> Start(const InputRow& row) = 0;
  // Rows that follow one another and have equal stack names are one record, so many at most; its
  // work gives one row for each of them, in their order.
  virtual int most_stacked() const { return 1; }
  // Throws Error when nothing of the row can be asked.
  virtual std::string StackName(const InputRow&) const { return ""; }
  virtual std::unique_ptr<RecordWork> StartStack(std::span<const InputRow> rows) {
    return Start(rows.front());
  }
  // What has a column of its own in tables.
  virtual TableColumns Columns() const = 0;
  // A row for a record that could not be read or started.
  virtual OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const = 0;
};

}  // namespace banyan
