// The job runner: reads rows, feeds the engine as fast as it takes work, writes rows as records
// finish. Memory does not grow with the input but for two hashes a record: a window of records is
// in flight, no more.
//
// Nobody waits for text. A thread reads rows (RowQueue); text workers turn rows into prompts and
// answers into rows; the engine computes on a thread of its own; the caller's thread hands answers
// to the records they belong to and writes.
//
//   RowQueue → Prepare (worker) → Engine → Route (caller) → Conclude (worker) → Write (caller)
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "tasks/input.h"
#include "tasks/key_set.h"
#include "tasks/output.h"
#include "tasks/prompt_counter.h"
#include "tasks/record_ledger.h"
#include "tasks/row_queue.h"
#include "tasks/row_stacks.h"
#include "tasks/task.h"

namespace banyan {

// What a job reads, its files expanded.
InputOptions InputOf(const JobOptions& options);

class JobRunner {
 public:
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options);
  ~JobRunner();

  JobReceipt Run();

 private:
  // A record on its way. Whoever has taken it out of in_flight_ may use it without a lock.
  struct Record {
    std::uint64_t sequence = 0;
    std::vector<TakenKey> keys;        // of the input's rows: one, unless the task stacks them
    std::unique_ptr<RecordWork> work;  // null: the rows are there
    std::string adapter;               // that its rows name; empty: none
    std::int64_t missing = 0;          // answers not there yet
    bool abandoned = false;            // an answer was cancelled: no rows, asked again on resume
    std::vector<Answer> answers;
    PromptCount prompts;
    std::vector<OutputRow> rows;
  };
  // What progress is reckoned from.
  struct Work {
    std::int64_t rows = 0;           // of the input that were read
    std::int64_t position = 0;       // bytes of the input up to the last of them
    std::int64_t skipped_bytes = 0;  // of rows among them that an earlier run finished
    PromptCount asked;               // of records that were taken; an error row is an answer
    std::int64_t finished_answers = 0;
    std::int64_t finished_tokens = 0;  // that these answers have
  };
  using RecordPtr = std::unique_ptr<Record>;

  // job_text.cc: what the text workers do.
  void WorkOnText();
  bool WantsMore() const;
  void Prepare(std::vector<InputRow> rows, RecordPtr record);
  void Conclude(RecordPtr record);
  // Submits what the record asks next; gives it back when it asks nothing more.
  RecordPtr Advance(RecordPtr record, std::vector<PromptSegment> prompts);
  void Deliver(RecordPtr record);

  // job_intake.cc: rows in the input's order.
  RecordPtr TakeRecord(std::vector<InputRow>& rows, bool& waits);
  bool ReadRecord(bool& waits);
  TakenRow Judge(InputRow row);

  // job.cc: what the caller's thread does.
  void StartEngine();
  void FinishSaving();
  void Route(std::vector<AnswerEvent> events);
  void Write();
  void WriteRows(const Record& record);
  bool Over();
  void Stop(JobEnd why);
  void EndWorkers();
  // job_progress.cc
  void ReportProgress(bool last);
  void Reckon(const Receipt& receipt);
  JobReceipt MakeReceipt();

  std::shared_ptr<Model> model_;
  Task& task_;
  const JobOptions& options_;
  const Strategy strategy_;
  const std::shared_ptr<KvStore> kv_store_;  // null: none
  Engine engine_;
  JobOutput output_;

  std::mutex intake_;  // guards what is done row by row in the input's order
  RowQueue input_;
  RecordLedger ledger_;
  std::uint64_t next_sequence_ = 0;
  std::int64_t rows_read_ = 0;
  std::int64_t position_ = 0;  // bytes of the input up to the row that came last
  RowStacks stacks_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, RecordPtr> in_flight_;  // by sequence
  std::deque<RecordPtr> answered_;                          // all answers are in
  std::vector<RecordPtr> concluded_;                        // the rows are there
  size_t open_records_ = 0;                                 // taken from the input and not written
  bool reading_ = true;
  bool stopping_ = false;
  bool ended_ = false;  // the workers may go
  std::int64_t skipped_ = 0;
  PromptCounter counter_;
  Work work_;
  double text_seconds_ = 0.0;  // of all workers
  std::exception_ptr failure_;

  // The caller's thread alone.
  std::map<std::uint64_t, RecordPtr> held_;  // ordered: waiting for earlier ones
  std::uint64_t next_written_ = 0;
  bool engine_started_ = false;
  JobEnd end_ = JobEnd::kComplete;
  std::int64_t first_rows_ = 0, first_errors_ = 0;  // of earlier runs
  JobProgress progress_;
  std::string first_error_;
  double output_seconds_ = 0.0;
  std::chrono::steady_clock::time_point start_, last_report_;

  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace banyan
