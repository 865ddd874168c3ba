// The job runner: reads rows, feeds the engine as fast as it takes work, writes rows as records
// finish. Memory does not grow with the input but for two hashes a record: a window of records is
// in flight, no more.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "tasks/input.h"
#include "tasks/key_set.h"
#include "tasks/output.h"
#include "tasks/record_ledger.h"
#include "tasks/row_queue.h"
#include "tasks/task.h"

namespace banyan {

class JobRunner {
 public:
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options);

  JobReceipt Run();

 private:
  struct InFlight {
    Key128 key{};
    std::unique_ptr<RecordWork> work;  // null: the rows are there
    std::int64_t missing = 0;          // answers not there yet
    std::int64_t input_position = 0;
    std::vector<OutputRow> rows;
  };

  // The loop: Feed → Step → Collect → write.
  void Feed();
  bool WantsMore() const;
  void Accept(InputRow& row);
  // Submits what the record asks next; true when it asks nothing more.
  bool Advance(std::uint64_t sequence, InFlight& record);
  void Collect();
  void Finish(std::uint64_t sequence, InFlight record);
  void WriteInOrder();
  void WriteRows(const InFlight& record);
  void StopReading(JobEnd why);
  // job_progress.cc
  void ReportProgress(bool last);
  JobReceipt MakeReceipt();

  std::shared_ptr<Model> model_;
  Task& task_;
  const JobOptions& options_;
  const Strategy strategy_;
  Engine engine_;
  JobOutput output_;
  RowQueue input_;
  RecordLedger ledger_;
  std::unordered_map<std::uint64_t, InFlight> in_flight_;  // by sequence
  std::map<std::uint64_t, InFlight> held_;  // ordered: finished, waiting for earlier ones
  std::uint64_t next_sequence_ = 0, next_written_ = 0;
  bool reading_ = true;
  bool explained_ = false;
  JobEnd end_ = JobEnd::kComplete;
  std::int64_t first_rows_ = 0, first_errors_ = 0;  // of earlier runs
  JobProgress progress_;
  std::int64_t rows_read_ = 0, skipped_ = 0;
  double input_seconds_ = 0.0, output_seconds_ = 0.0;
  std::chrono::steady_clock::time_point start_, last_report_;
};

}  // namespace banyan
