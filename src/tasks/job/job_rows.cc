#include "tasks/job/job_rows.h"

#include "base/error.h"

namespace banyan {

bool IsInShard(const JobOptions& job, std::int64_t index) {
  return index % job.shards == job.shard - 1;
}

RowProblem RepeatedId() { return {ErrorKind::kInput, "an earlier row has the same id"}; }

bool JobRows::Next(InputRow& row) {
  while ((job_.limit < 0 || read_ < job_.limit) && input_.Next(row)) {
    ++read_;
    try {
      if (!row.problem && !identities_.Insert(KeyOf({task_.Identity(row)}))) {
        row.problem = RepeatedId();
      }
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
    if (IsInShard(job_, row.index)) return true;
  }
  return false;
}

}  // namespace banyan
