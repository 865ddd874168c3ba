// Rows of an input on their way to records: read ahead, those of the shard, no id twice, stacked
// where a task wants several in one prompt.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/job.h"
#include "base/hash.h"
#include "tasks/input/field_names.h"
#include "tasks/input/input.h"
#include "tasks/job/task.h"
#include "tasks/output/journal.h"
#include "tasks/output/output.h"

namespace banyan {

// `index`: of the row in the whole input, from 0.
[[nodiscard]] bool IsInShard(const JobOptions& job, std::int64_t index);

// The problem of a row whose id an earlier row of the input has, in this shard or another.
[[nodiscard]] RowProblem RepeatedId();

// The input's rows that belong to a job: its limit, its shard, and no id twice. For callers that
// read rows one after the other and keep no journal; JobIntake reads ahead and asks its ledger.
class JobRows {
 public:
  // The reader, the task and the options must outlive it.
  JobRows(RowSource& input, const Task& task, const JobOptions& job)
      : input_(input), task_(task), job_(job) {}

  // The next row of the shard; one with a repeated or unusable id has a problem. False: no more.
  bool Next(InputRow& row);

 private:
  RowSource& input_;
  const Task& task_;
  const JobOptions& job_;
  KeySet identities_;
  std::int64_t read_ = 0;
};

// Which records of an input were met, in the input's order: of several with one id the first is
// asked and the others are errors, in this run and in those that go on with it, even when the input
// was sorted otherwise meanwhile.
class RecordLedger {
 public:
  using IsDone = std::function<bool(const Key128&)>;  // an earlier run finished the record

  struct Verdict {
    Key128 key{};            // of the record in the journal
    bool duplicate = false;  // an earlier record has its id
    bool done = false;
  };
  // The next record of the input: its id (with what belongs to it) and its line.
  Verdict Judge(std::string_view identity, std::string_view content, const IsDone& is_done);

 private:
  struct KeyHash {
    size_t operator()(const Key128& key) const { return static_cast<size_t>(key[0]); }
  };
  KeySet identities_;
  KeySet claims_;  // identities with the lines that have them
  std::unordered_map<Key128, int, KeyHash> repeats_;
};

struct TakenKey {
  Key128 key{};       // that the journal knows the row by
  bool done = false;  // an earlier run wrote the record
};

struct TakenRow {
  InputRow row;
  TakenKey key;
  std::int64_t bytes = 0;  // of the input
};

// Rows of an input → the records that a task makes of them: one row each, or stacks of rows that
// follow one another (Task::most_stacked).
class RowStacks {
 public:
  // Rows of a stack have one adapter of the model.
  RowStacks(const Task& task, const Model& model) : task_(task), model_(model) {}

  // The next row of the input.
  void Add(TakenRow taken);
  // No more rows come: what has been gathered is whole.
  void End();

  bool HasRecord() const { return !whole_.empty(); }
  bool IsGathering() const { return !growing_.empty(); }
  // REQUIRES: HasRecord. In the input's order.
  std::vector<TakenRow> TakeRecord();

 private:
  const Task& task_;
  const Model& model_;
  std::string name_;               // of the stack that grows
  std::vector<TakenRow> growing_;  // fewer than Task::most_stacked
  std::deque<std::vector<TakenRow>> whole_;
};

// Rows read ahead by a thread of their own, so that a slow pipe never holds up answers that are
// being written. A bounded number of rows waits, and a bounded number of their bytes.
class RowQueue {
 public:
  explicit RowQueue(InputOptions options);
  // Rows of another source. It is not told when reading is given up.
  explicit RowQueue(std::unique_ptr<RowSource> source);
  ~RowQueue();  // gives up reading
  RowQueue(const RowQueue&) = delete;
  RowQueue& operator=(const RowQueue&) = delete;

  enum class State { kRow, kNothingYet, kEnd };
  // Waits for a row at most so long.
  State Take(InputRow& row, double seconds);
  std::int64_t total_bytes() const { return total_bytes_; }  // of the input; -1: unknown
  // With InputOptions::wants_header: as InputReader::Header. Waits until it is known, or `stop`
  // (may be empty) says true.
  TableHeader Header(const std::function<bool()>& stop);

 private:
  void Read();
  void ReadHeader();

  std::atomic<bool> cancelled_{false};
  const std::unique_ptr<RowSource> reader_;
  const std::int64_t total_bytes_;
  const bool wants_header_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<InputRow> rows_;
  size_t bytes_ = 0;  // of the rows' content
  TableHeader header_;
  bool header_known_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

// Rows of the input become records: rows that an earlier run finished are known, second ones of an
// id are errors, and rows that a task wants in one prompt are stacked. All of it happens in the
// input's order, so that a job that goes on makes the same records.
// Not thread-safe: one thread at a time.
class JobIntake {
 public:
  // All of them must outlive it. `reordered`: rows come in another order than the input's.
  JobIntake(const Task& task, const Model& model, const JobOptions& options,
            const JobOutput& output, RowQueue& input, bool reordered = false);

  enum class State { kRecord, kNothingYet, kEnd };
  // The rows of the next record. Throws kUsage when the output is finished and a row is none of its
  // job's.
  State Take(std::vector<TakenRow>& rows);

  std::int64_t rows_read() const { return rows_read_; }
  Key128 input_hash() const { return input_hash_.Value(); }  // of the rows read so far
  // Keys of all rows taken, in the input's order, if an earlier run wrote some (the others are
  // gone) or rows come in another order.
  std::vector<Key128> Taken() const;
  // Files of which not all could be read, and the first 20 of these, with the reasons.
  std::int64_t unread_inputs() const { return unread_inputs_; }
  const std::vector<std::string>& unread() const { return unread_; }
  // Fields that were perhaps to be read.
  std::vector<std::string> MistypedNotices() const { return mistyped_.Notices(); }
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
  const bool reordered_;
  std::int64_t rows_read_ = 0;
  std::int64_t position_ = 0;  // bytes of the input up to the row that came last
  ContentHash input_hash_;
  std::vector<std::pair<std::int64_t, Key128>> taken_;  // with the row's place in the input
  std::int64_t unread_inputs_ = 0;
  std::vector<std::string> unread_;
  std::string stopped_at_;
  MistypedFields mistyped_;
};

}  // namespace banyan
