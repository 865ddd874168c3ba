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

// The job with the field `id` as JobOptions::id_column says, or as a table without it suggests,
// which the job's notice hears. Throws kUsage where `fields` says otherwise.
JobOptions WithIdColumn(JobOptions job);

// That a text is split, and what that costs.
std::string SplitNotice(const std::string& id, size_t parts, const std::string& task);

class JobRunner {
 public:
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options);
  ~JobRunner();

  // Throws kIo when a device failed: finished rows are written, and the job can be resumed.
  JobReceipt Run();

 private:
  void StartEngine();
  void Route(std::vector<AnswerEvent> events);
  void SaySplit();
  void Write();
  void WriteRows(const JobRecord& record);
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
  RowQueue input_;
  JobOutput output_;
  JobIntake intake_;  // used by the workers, and again when they have ended
  TextWorkers workers_;
  ProgressMeter meter_;

  std::map<std::uint64_t, std::unique_ptr<JobRecord>> held_;  // ordered: waiting for earlier ones
  std::uint64_t next_written_ = 0;
  bool engine_started_ = false;
  JobEnd end_ = JobEnd::kComplete;
  const std::int64_t first_rows_, first_errors_;  // of earlier runs
  std::string first_error_;
  std::optional<DeviceFailure> device_failure_;  // which ended the job
  std::string refused_;  // strict: why a record that was read could not be asked; empty: none
  double output_seconds_ = 0.0;
};

// What a job would do and about how long it would take, before it runs: `--dry-run`. Makes the
// prompts of the whole input and answers the first few for some seconds. See job_receipt.cc.
JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job);

}  // namespace banyan
