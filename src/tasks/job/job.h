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
#include "base/hash.h"
#include "tasks/input/input.h"
#include "tasks/job/prompt_counter.h"
#include "tasks/job/record_ledger.h"
#include "tasks/job/record_run.h"
#include "tasks/job/row_queue.h"
#include "tasks/job/row_stacks.h"
#include "tasks/job/task.h"
#include "tasks/output/journal.h"
#include "tasks/output/output.h"

namespace banyan {

// What a job reads, its files expanded; or given so.
InputOptions InputOf(const JobOptions& options);
InputOptions InputOf(const JobOptions& options, std::vector<std::string> files);

class JobRunner {
 public:
  JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
            const JobOptions& options);
  ~JobRunner();

  JobReceipt Run();

 private:
  // A record on its way. Whoever has taken it out of in_flight_ may use it without a lock.
  struct Record {
    explicit Record(std::uint64_t sequence) : run(sequence) {}
    RecordRun run;               // cancelled: no rows, asked again on resume
    std::vector<TakenKey> keys;  // of the input's rows: one, unless the task stacks them
    std::vector<std::shared_ptr<const Json>>
        given;  // of the input's rows, where tables come out again
    PromptCount prompts;
    std::int64_t generated = 0;  // tokens of its answers
    std::int64_t answered = 0;   // its rows, as counted in Work::answered_rows
    std::vector<OutputRow> rows;
  };
  // What progress is reckoned from.
  struct Work {
    std::int64_t rows = 0;           // of the input that were read
    std::int64_t position = 0;       // bytes of the input up to the last row read
    std::int64_t skipped_bytes = 0;  // of rows among them that an earlier run finished
    PromptCount asked;               // of records that were taken; an error row is an answer
    std::int64_t finished_answers = 0;
    std::int64_t finished_tokens = 0;  // that these answers have
    std::int64_t answered_rows = 0;    // of records that were not written yet
  };
  using RecordPtr = std::unique_ptr<Record>;

  // job_text.cc: what the text workers do.
  void WorkOnText();
  bool WantsMore() const;
  void Prepare(std::vector<InputRow> rows, RecordPtr record);
  void Conclude(RecordPtr record);
  // Round after round; gives the record back when it asks nothing more.
  RecordPtr Advance(RecordPtr record);
  // Submits a round; gives the record back when the round is over already.
  RecordPtr SubmitRound(RecordPtr record);
  void Deliver(RecordPtr record);
  void CountAnswered(Record& record);

  // job_intake.cc: rows in the input's order.
  RecordPtr TakeRecord(std::vector<InputRow>& rows, bool& waits);
  bool ReadRecord(bool& waits);
  void AddToInputHash(const InputRow& row);
  TakenRow Judge(InputRow row);
  bool MayGoOn(const TakenRow& taken);

  // job.cc: what the caller's thread does.
  void StartEngine();
  void FinishSaving();
  void Route(std::vector<AnswerEvent> events);
  void Write();
  void WriteRows(const Record& record);
  bool Over();
  bool MetUnreadable() const;
  void Stop(JobEnd why);
  void EndWorkers();
  // job_progress.cc
  void ReportProgress(bool last);
  void Reckon(const Receipt& receipt);
  JobReceipt MakeReceipt();
  void CountWritten(JobReceipt& receipt) const;

  std::shared_ptr<Model> model_;
  Task& task_;
  const JobOptions& options_;
  const Strategy strategy_;
  const std::shared_ptr<KvStore> kv_store_;  // null: none
  Engine engine_;
  RowQueue input_;  // guarded by intake_, once the workers run
  JobOutput output_;

  std::mutex intake_;  // guards what is done row by row in the input's order
  RecordLedger ledger_;
  std::uint64_t next_sequence_ = 0;
  std::int64_t rows_read_ = 0;
  std::int64_t position_ = 0;  // bytes of the input up to the row that came last
  ContentHash input_hash_;     // of the rows read so far
  // Of rows that were taken, in that order, when an earlier run left some: the others are gone.
  std::vector<Key128> taken_;
  RowStacks stacks_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, RecordPtr> in_flight_;  // by sequence
  std::deque<RecordPtr> answered_;                          // the round is over
  std::vector<RecordPtr> concluded_;                        // the rows are there
  size_t open_records_ = 0;                                 // taken from the input and not written
  bool reading_ = true;
  bool stopping_ = false;
  bool ended_ = false;  // the workers may go
  std::int64_t skipped_ = 0;
  PromptCounter counter_;
  Work work_;
  std::int64_t unread_inputs_ = 0;
  std::string first_unread_;
  std::string stopped_at_;     // strict: what could not be read
  double text_seconds_ = 0.0;  // of all workers
  std::exception_ptr failure_;

  // The caller's thread alone.
  std::map<std::uint64_t, RecordPtr> held_;  // ordered: waiting for earlier ones
  std::uint64_t next_written_ = 0;
  bool engine_started_ = false;
  JobEnd end_ = JobEnd::kComplete;
  std::int64_t first_rows_ = 0, first_errors_ = 0;  // of earlier runs
  JobProgress progress_;
  std::int64_t written_tokens_ = 0;  // generated, of rows that were written
  std::string first_error_;
  double output_seconds_ = 0.0;
  std::chrono::steady_clock::time_point start_, last_report_;

  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace banyan
