#include "tasks/job/job_intake.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/error.h"

namespace banyan {

JobIntake::JobIntake(const Task& task, const Model& model, const JobOptions& options,
                     const JobOutput& output, RowQueue& input)
    : task_(task), options_(options), output_(output), input_(input), stacks_(task, model) {}

JobIntake::State JobIntake::Take(std::vector<TakenRow>& rows) {
  const State state = Read();
  if (state != State::kRecord) return state;
  rows = stacks_.TakeRecord();
  if (output_.done_before() > 0) {
    for (const TakenRow& row : rows) taken_.push_back(row.key.key);
  }
  return state;
}

// Reads until a record is whole.
JobIntake::State JobIntake::Read() {
  while (!stacks_.HasRecord()) {
    InputRow row;
    const bool enough =
        (options_.limit >= 0 && rows_read_ >= options_.limit) || !stopped_at_.empty();
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
    if (state == RowQueue::State::kNothingYet) return State::kNothingYet;
    if (!stacks_.IsGathering()) return State::kEnd;
    stacks_.End();
  }
  return State::kRecord;
}

// Of all rows in their order, whatever shard they belong to.
void JobIntake::AddToInputHash(const InputRow& row) {
  const std::uint64_t bytes = row.content.size();
  input_hash_.Add(std::as_bytes(std::span(&bytes, 1))).Add(row.content);
}

// Notes what cannot be read. False: the caller is strict, and that ends the job.
bool JobIntake::MayGoOn(const TakenRow& taken) {
  const InputRow& row = taken.row;
  if (!row.problem || taken.key.done) return true;
  const std::string where =
      row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
  std::string what = row.problem->message.starts_with(row.file)
                         ? row.problem->message
                         : fmt::format("{}: {}", where, row.problem->message);
  if (options_.strict) {
    if (stopped_at_.empty()) stopped_at_ = std::move(what);
    return false;
  }
  if (row.ends_file && unread_inputs_++ == 0) first_unread_ = std::move(what);
  return true;
}

TakenRow JobIntake::Judge(InputRow row) {
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
