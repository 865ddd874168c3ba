// What the job runner knows of a task: a record becomes prompts, answers become rows. The runner
// does the rest: reading, feeding the engine, order, errors, resuming. A record is a row of the
// input; where a task stacks rows, several that follow one another.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "tasks/input.h"
#include "tasks/output.h"

namespace banyan {

// One record on its way through the engine.
class RecordWork {
 public:
  virtual ~RecordWork() = default;
  // What to ask next; nothing when the record is done. Called at the start and again whenever all
  // answers are in, so that a task may ask in stages. The tag of every answer is a number of the
  // work's own below 2^24, used once.
  virtual std::vector<PromptSegment> NextPrompts() = 0;
  virtual void Take(Answer answer) = 0;
  // The prompts of a tag were refused by the engine.
  virtual void Refuse(const Error& error) = 0;
  virtual std::vector<OutputRow> Rows() = 0;
  // Once the prompts are made: rows that will come, and what is known to be wrong with some.
  virtual std::int64_t row_count() const { return 1; }
  virtual std::vector<RowProblem> Problems() const { return {}; }
};

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
