// The job runner: reads rows, feeds the engine as fast as it takes work, writes rows as records
// finish. Memory does not grow with the input but for two hashes a record: a window of records is
// in flight, no more.
//
// No thread waits for text. One reads rows (RowQueue); text workers turn rows into prompts and
// answers into rows; the engine computes on a thread of its own; the caller's thread hands answers
// to the records they belong to and writes.
//
//   RowQueue → JobIntake → TextWorkers → Engine → TextWorkers → JobOutput
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/text.h"
#include "tasks/input/input.h"
#include "tasks/job/job_progress.h"
#include "tasks/job/job_rows.h"
#include "tasks/job/task.h"
#include "tasks/job/text_workers.h"
#include "tasks/output/output.h"

namespace banyan {

// What a job reads, its files expanded; or given so.
InputOptions InputOf(const JobOptions& options);
InputOptions InputOf(const JobOptions& options, std::vector<std::string> files);

// The same with what the job's output wants of it.
InputOptions RowsOf(const JobOptions& options);

// The job with the field `id` as JobOptions::id_column says, or as a table without it suggests,
// which the job's notice hears. Throws kUsage where `fields` says otherwise.
JobOptions WithIdColumn(JobOptions job);

// That a text is split, and what that costs.
std::string SplitNotice(const std::string& id, size_t parts, const std::string& task);

class JobRunner {
 public:
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options);
  // Rows of `source`, which come in another order than the input's, where InputRow::index says
  // which they are. The output gets the input's order: a file at the end, standard output row by
  // row. REQUIRES: options.ordered.
  struct Reordered {
    std::unique_ptr<RowSource> source;
    bool keep_others = false;  // rows of earlier runs that are not of this source stay
  };
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options, Reordered rows);
  ~JobRunner();

  // Throws kIo when a device failed: finished rows are written, and the job can be resumed.
  JobReceipt Run();

 private:
  void StartEngine();
  void Route(std::vector<AnswerEvent> events);
  void SaySplit();
  void Write();
  void WriteRows(JobRecord& record);
  void WriteInOrder(bool all);
  void Stop(JobEnd why);
  void FinishOutput();
  void FinishSaving();
  void ReportProgress(bool last);
  JobReceipt MakeReceipt();

  std::shared_ptr<Model> model_;
  Task& task_;
  const JobOptions& options_;
  const Strategy strategy_;
  const std::shared_ptr<KvStore> kv_store_;  // null: none
  Engine engine_;
  const bool reordered_, keep_others_;
  RowQueue input_;
  JobOutput output_;
  JobIntake intake_;  // used by the workers, and again when they have ended
  TextWorkers workers_;
  ProgressMeter meter_;

  std::map<std::uint64_t, std::unique_ptr<JobRecord>> held_;  // ordered: waiting for earlier ones
  // Where a reordered output cannot be sorted afterwards: rows by their places in the input, and
  // the place of the one that is written next.
  struct HeldRow {
    Key128 key{};
    std::vector<OutputRow> rows;
  };
  std::map<std::int64_t, HeldRow> held_rows_;
  std::int64_t next_row_;
  std::uint64_t next_written_ = 0;
  bool engine_started_ = false;
  JobEnd end_ = JobEnd::kComplete;
  const std::int64_t first_rows_, first_errors_;  // of earlier runs
  std::string first_error_;
  std::optional<DeviceFailure> device_failure_;  // which ended the job
  std::string refused_;  // strict: why a record that was read could not be asked; empty: none
  double output_seconds_ = 0.0;
};

// The prompts of the first rows, each after a line with its place, or why there is none.
std::string ShowTaskPrompts(const Text& text, Task& task, RowSource& rows, std::int64_t count);

// What a job would do and about how long it would take, before it runs: `--dry-run`. Makes the
// prompts of the whole input and answers the first few for some seconds. See job_estimate.cc.
JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job);
// Of rows that were read before.
JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job, RowSource& rows);

}  // namespace banyan
