// The input's rows that belong to a job: its limit, its shard, and no id twice. For those who read
// rows one after the other and keep no journal; JobRunner reads ahead and asks its ledger instead.
#pragma once

#include <cstdint>

#include "banyan/job.h"
#include "tasks/input/input.h"
#include "tasks/job/task.h"
#include "tasks/output/journal.h"

namespace banyan {

// `index`: of the row in the whole input, from 0.
[[nodiscard]] bool IsInShard(const JobOptions& job, std::int64_t index);

// The problem of a row whose id an earlier row of the input has, in this shard or another.
[[nodiscard]] RowProblem RepeatedId();

class JobRows {
 public:
  // The reader, the task and the options must outlive it.
  JobRows(InputReader& input, const Task& task, const JobOptions& job)
      : input_(input), task_(task), job_(job) {}

  // The next row of the shard; one with a repeated or unusable id has a problem. False: no more.
  bool Next(InputRow& row);

 private:
  InputReader& input_;
  const Task& task_;
  const JobOptions& job_;
  KeySet identities_;
  std::int64_t read_ = 0;
};

}  // namespace banyan
