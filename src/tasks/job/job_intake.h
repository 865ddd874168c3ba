// Rows of the input become records: rows that an earlier run finished are known, second ones of an
// id are errors, and rows that a task wants in one prompt are stacked. All of it happens in the
// input's order, so that a job that goes on makes the same records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/hash.h"
#include "tasks/job/job_rows.h"
#include "tasks/job/task.h"
#include "tasks/output/output.h"

namespace banyan {

// Not thread-safe: one thread at a time.
class JobIntake {
 public:
  // All of them must outlive it.
  JobIntake(const Task& task, const Model& model, const JobOptions& options,
            const JobOutput& output, RowQueue& input);

  enum class State { kRecord, kNothingYet, kEnd };
  // The rows of the next record. Throws kUsage when the output is finished and a row is none of its
  // job's.
  State Take(std::vector<TakenRow>& rows);

  std::int64_t rows_read() const { return rows_read_; }
  Key128 input_hash() const { return input_hash_.Value(); }  // of the rows read so far
  // Keys of all rows taken, in their order, if an earlier run wrote some: the others are gone.
  const std::vector<Key128>& taken() const { return taken_; }
  // Files of which not all could be read, and the first of these, with the reason.
  std::int64_t unread_inputs() const { return unread_inputs_; }
  const std::string& first_unread() const { return first_unread_; }
  // JobOptions::strict: what could not be read, which ends the job; empty: nothing.
  const std::string& stopped_at() const { return stopped_at_; }

 private:
  State Read();
  void AddToInputHash(const InputRow& row);
  TakenRow Judge(InputRow row);
  bool MayGoOn(const TakenRow& taken);

  const Task& task_;
  const JobOptions& options_;
  const JobOutput& output_;
  RowQueue& input_;
  RecordLedger ledger_;
  RowStacks stacks_;
  std::int64_t rows_read_ = 0;
  std::int64_t position_ = 0;  // bytes of the input up to the row that came last
  ContentHash input_hash_;
  std::vector<Key128> taken_;
  std::int64_t unread_inputs_ = 0;
  std::string first_unread_, stopped_at_;
};

}  // namespace banyan
