// Rows of the input → records: known rows are skipped, second ones of an id are errors, and rows
// that a task wants in one prompt are stacked. All of it in the input's order, so that a job that
// goes on makes the same records.
#include <utility>

#include "base/error.h"
#include "tasks/job.h"

namespace banyan {

// The next record that is to be asked, with its rows; nothing: there is none, perhaps only not yet.
JobRunner::RecordPtr JobRunner::TakeRecord(std::vector<InputRow>& rows, bool& waits) {
  const std::lock_guard intake(intake_);
  if (!stacks_.HasRecord() && !ReadRecord(waits)) return nullptr;
  std::vector<TakenRow> taken = stacks_.TakeRecord();
  const std::lock_guard lock(mutex_);
  if (stopping_) return nullptr;
  work_.rows = rows_read_;
  work_.position = taken.back().row.input_position;
  auto record = std::make_unique<Record>();
  bool all_done = true;
  for (TakenRow& one : taken) {
    record->keys.push_back(one.key);
    all_done = all_done && one.key.done;
    if (one.key.done) {
      ++skipped_;
      work_.skipped_bytes += one.bytes;
    }
    rows.push_back(std::move(one.row));
  }
  if (all_done) return nullptr;
  record->sequence = next_sequence_++;
  ++open_records_;
  return record;
}

// REQUIRES: intake_. Reads until a record is whole; false: the input is at its end, or `waits`.
bool JobRunner::ReadRecord(bool& waits) {
  while (!stacks_.HasRecord()) {
    InputRow row;
    const bool enough = options_.limit >= 0 && rows_read_ >= options_.limit;
    const RowQueue::State state = enough ? RowQueue::State::kEnd : input_.Take(row, 0.0);
    if (state == RowQueue::State::kRow) {
      ++rows_read_;
      TakenRow taken = Judge(std::move(row));
      if (taken.row.index % options_.shards == options_.shard - 1) stacks_.Add(std::move(taken));
      continue;
    }
    if (state == RowQueue::State::kEnd && stacks_.IsGathering()) {
      stacks_.End();
      continue;
    }
    waits = true;
    if (state == RowQueue::State::kEnd) {
      const std::lock_guard lock(mutex_);
      reading_ = false;
    }
    return false;
  }
  return true;
}

// REQUIRES: intake_.
TakenRow JobRunner::Judge(InputRow row) {
  TakenRow taken;
  const auto is_done = [this](const Key128& key) { return output_.IsDone(key); };
  if (!row.problem) {
    try {
      const auto verdict = ledger_.Judge(task_.Identity(row), row.content, is_done);
      taken.key = {verdict.key, verdict.done};
      if (verdict.duplicate) row.problem = {ErrorKind::kInput, "an earlier row has the same id"};
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
  }
  taken.bytes = row.input_position - std::exchange(position_, row.input_position);
  // An error is about a place in a file, so its key has the place; a record's key is its content.
  if (taken.key.key == Key128{}) {
    taken.key.key = KeyOf({"problem", fmt::format("{}:{}", row.file, row.line), row.content});
    taken.key.done = is_done(taken.key.key);
  }
  taken.row = std::move(row);
  return taken;
}

}  // namespace banyan
