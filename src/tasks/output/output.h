// A job's output: rows in some format, and the journal that makes it resumable. Rows of one record
// stand together, so the journal's order of records is the output's order of rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/json.h"
#include "base/output_file.h"
#include "tasks/input/input.h"
#include "tasks/output/journal.h"
#include "tasks/output/locked_output.h"
#include "tasks/output/output_check.h"
#include "tasks/output/row_format.h"
#include "tasks/output/rows_copy.h"

namespace banyan {

class JobOutput {
 public:
  // `header` has "task", "model" (its identity, an object) and "parameters" (an object); an output
  // that was begun with others is refused with every difference (kUsage), and so is one that is not
  // what its journal says. Opens, repairs and locks the files.
  JobOutput(const JobOptions& options, TableColumns columns, Json header);

  // An earlier run of the same job finished everything: nothing is written. What this run reads
  // must be what that one read: see CheckSameInput.
  bool finished() const { return finished_; }
  // REQUIRES: finished(). `row` (may be null) was not read by that run; `missing` records that it
  // read are not in this input. Throws kUsage unless there are none of either.
  void CheckSameInput(const InputRow* row, std::int64_t missing) const;

  // An earlier run finished this record.
  bool IsDone(const Key128& key) const { return done_.Contains(key); }
  std::int64_t done_before() const { return done_.size(); }

  // Appends the rows of a finished record.
  void Write(const Key128& key, std::span<const OutputRow> rows);
  // Shows what was written to readers; once in a while makes it count.
  void Tick();
  // Of rows that earlier runs wrote, those of other records are removed, and an ordered output gets
  // the order of `wanted`, which has every record of the input. Nothing changes in a first run,
  // unless it wrote them in another order.
  struct Keeping {
    bool others = false;     // records that are not wanted stay, at the end
    bool reordered = false;  // this run wrote in another order
  };
  void KeepOnly(const std::vector<Key128>& wanted, const Keeping& keeping);
  // KeepOnly can change the order of rows that were written.
  bool can_reorder() const { return has_journal(); }
  // Makes everything count. `complete`: the whole input is done, and `input` is its hash.
  void Finish(bool complete, const Key128& input);

  // Of --columns: those that no row of this run had.
  std::vector<std::string> UnusedColumns() const { return format_.UnusedColumns(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t error_rows() const { return error_rows_; }
  std::int64_t dropped() const { return dropped_; }  // records without rows
  struct Removed {
    std::int64_t rows = 0, error_rows = 0;
  };
  const Removed& removed() const { return removed_; }  // by KeepOnly
  std::string answers_hash() const;                    // 32 hexadecimal digits

 private:
  bool has_journal() const { return journal_ != nullptr; }
  void Begin();
  void WriteTableHeader();
  void Checkpoint(bool complete, const Key128& input = {});
  // What earlier runs left
  void Open();
  void Resume(JournalContents journal, const OutputCheck& check);
  JournalContents ReplaceBy(const JournalContents& journal, const std::vector<size_t>& records);
  void TakeUp(const JournalContents& journal);
  void Count(const JournalContents& journal);

  const JobOptions& options_;
  Json header_;
  RowFormat format_;
  Packing packing_ = Packing::kNone;
  bool finished_ = false;
  bool for_terminal_ = false;               // a terminal: control characters are escaped
  std::unique_ptr<LockedOutput> locked_;    // null: standard output or a device
  std::unique_ptr<JournalWriter> journal_;  // null: likewise
  std::unique_ptr<OutputFile> file_;
  RowsCopy copy_;  // of this run's rows
  KeySet done_;
  std::int64_t raw_bytes_ = 0;
  std::int64_t rows_ = 0, error_rows_ = 0, dropped_ = 0;
  Removed removed_;
  Key128 hash_{};
  bool unflushed_ = false, uncommitted_ = false;
  std::chrono::steady_clock::time_point last_flush_, last_commit_;
};

}  // namespace banyan
