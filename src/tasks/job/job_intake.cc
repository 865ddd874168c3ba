// Rows of the input → records: known rows are skipped, second ones of an id are errors, and rows
// that a task wants in one prompt are stacked. All of it in the input's order, so that a job that
// goes on makes the same records.
#include <span>
#include <utility>

#include "base/error.h"
#include "tasks/job/job.h"
#include "tasks/job/job_rows.h"

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
  std::vector<TakenKey> keys;
  bool all_done = true;
  for (TakenRow& one : taken) {
    keys.push_back(one.key);
    if (output_.done_before() > 0) taken_.push_back(one.key.key);
    all_done = all_done && one.key.done;
    if (one.key.done) {
      ++skipped_;
      work_.skipped_bytes += one.bytes;
    }
    rows.push_back(std::move(one.row));
  }
  if (all_done) return nullptr;
  auto record = std::make_unique<Record>(next_sequence_++);
  record->keys = std::move(keys);
  ++open_records_;
  return record;
}

// REQUIRES: intake_. Reads until a record is whole; false: the input is at its end, or `waits`.
bool JobRunner::ReadRecord(bool& waits) {
  while (!stacks_.HasRecord()) {
    InputRow row;
    const bool enough = (options_.limit >= 0 && rows_read_ >= options_.limit) || MetUnreadable();
    const RowQueue::State state = enough ? RowQueue::State::kEnd : input_.Take(row, 0.0);
    if (state == RowQueue::State::kRow) {
      ++rows_read_;
      AddToInputHash(row);
      TakenRow taken = Judge(std::move(row));
      if (!IsInShard(options_, taken.row.index)) continue;
      if (output_.finished() && !taken.key.done) output_.CheckSameInput(&taken.row, 0);
      if (MayGoOn(taken)) stacks_.Add(std::move(taken));
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

// REQUIRES: intake_. Of all rows in their order, whatever shard they belong to.
void JobRunner::AddToInputHash(const InputRow& row) {
  const std::uint64_t bytes = row.content.size();
  input_hash_.Add(std::as_bytes(std::span(&bytes, 1))).Add(row.content);
}

// REQUIRES: intake_. Notes what cannot be read. False: the caller is strict, and that ends the job.
bool JobRunner::MayGoOn(const TakenRow& taken) {
  const InputRow& row = taken.row;
  if (!row.problem || taken.key.done) return true;
  const std::string where =
      row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
  std::string what = row.problem->message.starts_with(row.file)
                         ? row.problem->message
                         : fmt::format("{}: {}", where, row.problem->message);
  const std::lock_guard lock(mutex_);
  if (options_.strict) {
    if (stopped_at_.empty()) stopped_at_ = std::move(what);
    reading_ = false;
    return false;
  }
  if (row.ends_file && unread_inputs_++ == 0) first_unread_ = std::move(what);
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
      if (verdict.duplicate) row.problem = RepeatedId();
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
