// Rows of an input → the records that a task makes of them: one row each, or stacks of rows that
// follow one another (Task::most_stacked).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tasks/job/task.h"
#include "tasks/output/journal.h"

namespace banyan {

struct TakenKey {
  Key128 key{};       // that the journal knows the row by
  bool done = false;  // an earlier run wrote the record
};

struct TakenRow {
  InputRow row;
  TakenKey key;
  std::int64_t bytes = 0;  // of the input
};

class RowStacks {
 public:
  // Rows of a stack have one adapter of the model.
  RowStacks(const Task& task, const Model& model) : task_(task), model_(model) {}

  // The next row of the input.
  void Add(TakenRow taken);
  // No more rows come: what has been gathered is whole.
  void End();

  bool HasRecord() const { return !whole_.empty(); }
  bool IsGathering() const { return !growing_.empty(); }
  // REQUIRES: HasRecord. In the input's order.
  std::vector<TakenRow> TakeRecord();

 private:
  const Task& task_;
  const Model& model_;
  std::string name_;               // of the stack that grows
  std::vector<TakenRow> growing_;  // fewer than Task::most_stacked
  std::deque<std::vector<TakenRow>> whole_;
};

}  // namespace banyan
