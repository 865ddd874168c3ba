// Text beside the engine: rows become prompts ahead of it, answers become rows behind it. Several
// threads do either, whatever there is to do, and keep the records that are under way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "tasks/job/job_progress.h"
#include "tasks/job/job_rows.h"
#include "tasks/job/record_run.h"
#include "tasks/job/task.h"

namespace banyan {

// A record under way. Whoever has taken it out of TextWorkers::in_flight_ may use it without a
// lock.
struct JobRecord {
  explicit JobRecord(std::uint64_t sequence) : run(sequence) {}
  RecordRun run;                     // cancelled: no rows, asked again on resume
  std::vector<TakenKey> keys;        // of the input's rows: one, unless the task stacks them
  std::vector<std::int64_t> places;  // of these rows in the input
  std::vector<std::shared_ptr<const Json>> given;  // the input's rows, where tables come out again
  PromptCount prompts, first_prompts;              // of all rounds, of the first
  std::int64_t generated = 0;                      // tokens of its answers
  std::int64_t answered = 0;  // its rows, as counted in WorkCount::answered_rows
  std::vector<OutputRow> rows;
};

// A text that is longer than the model reads at once.
struct SplitText {
  Json id;  // of its record
  size_t parts = 1;
};

class TextWorkers {
 public:
  // All of them must outlive it.
  TextWorkers(const Model& model, Engine& engine, Task& task, JobIntake& intake)
      : model_(model), engine_(engine), task_(task), intake_(intake) {}

  void Start();
  // No further record is taken, and prompts that the engine refuses from now on are withdrawn.
  void Stop();
  // Waits for the threads. REQUIRES: the engine takes or refuses what they submit.
  void End();

  // --- What the thread that writes does
  // Gives every answer to its record; records that have all of theirs go to the threads.
  void Route(std::vector<AnswerEvent> events);
  // Records whose rows are there.
  std::vector<std::unique_ptr<JobRecord>> TakeConcluded();
  // So many of these were written, with so many rows counted as answered.
  void CountWritten(size_t records, std::int64_t answered_rows);
  // Nothing comes but `held` records that were taken already. Throws what a thread threw.
  bool Over(size_t held);
  // A row could not be read, and the job is strict.
  bool met_unreadable() const;
  // The first text that was split; once.
  std::optional<SplitText> TakeSplit();
  WorkCount work() const;
  double seconds() const;  // of all threads

 private:
  using RecordPtr = std::unique_ptr<JobRecord>;

  void Work();
  bool WantsMore() const;
  RecordPtr TakeRecord(std::vector<InputRow>& rows, bool& waits);
  void Prepare(std::vector<InputRow> rows, RecordPtr record);
  void Conclude(RecordPtr record);
  // Round after round; gives the record back when it asks nothing more.
  RecordPtr Advance(RecordPtr record);
  // Submits a round; gives the record back when the round is over already.
  RecordPtr SubmitRound(RecordPtr record);
  void Deliver(RecordPtr record);
  void CountAnswered(JobRecord& record);

  const Model& model_;
  Engine& engine_;
  Task& task_;

  std::mutex intake_mutex_;  // guards the intake and the records' numbers
  JobIntake& intake_;
  std::uint64_t next_sequence_ = 0;

  mutable std::mutex mutex_;  // guards what follows; taken after intake_mutex_
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, RecordPtr> in_flight_;  // by sequence
  std::deque<RecordPtr> answered_;                          // the round is over
  std::vector<RecordPtr> concluded_;                        // the rows are there
  size_t open_records_ = 0;                                 // taken from the input and not written
  bool stopping_ = false;
  bool ended_ = false;  // the threads may go
  bool unreadable_ = false;
  std::optional<SplitText> first_split_;
  bool said_split_ = false;
  PromptCounter counter_;
  WorkCount work_;
  double seconds_ = 0.0;
  std::exception_ptr failure_;

  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace banyan
