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
#include "tasks/journal.h"
#include "tasks/key_set.h"
#include "tasks/output_check.h"
#include "tasks/row_format.h"

namespace banyan {

class JobOutput {
 public:
  // `header` has "task", "model" (its identity, an object) and "parameters" (an object); an output
  // that was begun with others is refused with every difference (kUsage), and so is one that is not
  // what its journal says. Opens, repairs and locks the files.
  JobOutput(const JobOptions& options, TableColumns columns, Json header);
  ~JobOutput();

  // An earlier run finished this record.
  bool IsDone(const Key128& key) const { return done_.Contains(key); }
  std::int64_t done_before() const { return done_.size(); }

  // Appends the rows of a finished record.
  void Write(const Key128& key, std::span<const OutputRow> rows);
  // Shows what was written to readers; once in a while makes it count.
  void Tick();
  // Makes everything count. `complete`: the whole input is done.
  void Finish(bool complete);

  // Of --columns: those that no row of this run had.
  std::vector<std::string> UnusedColumns() const { return format_.UnusedColumns(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t error_rows() const { return error_rows_; }
  std::string answers_hash() const;  // 32 hexadecimal digits

 private:
  bool has_journal() const { return journal_ != nullptr; }
  void Begin();
  void Checkpoint(bool complete);

  void CheckStillThere() const;

  // output_resume.cc
  void Lock();
  void Open();
  void Resume(JournalContents journal, const OutputCheck& check);
  void CheckUnchanged(const JournalContents& journal, const OutputCheck& check) const;
  void CheckSameJob(const Json& before) const;
  void WriteTableHeader();
  // output_retry.cc
  JournalContents DropErrors(JournalContents journal);
  JournalContents FinishReplacing();
  void PutReplacementInPlace();
  void ForgetReplacement() const;

  const JobOptions& options_;
  Json header_;
  RowFormat format_;
  Packing packing_ = Packing::kNone;
  bool for_terminal_ = false;  // a person reads it: control characters are shown, not obeyed
  int lock_ = -1;              // the output file, opened and locked
  std::string real_path_;      // of the output file, without links
  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<JournalWriter> journal_;  // null: standard output
  KeySet done_;
  std::int64_t raw_bytes_ = 0;
  std::int64_t rows_ = 0, error_rows_ = 0;
  Key128 hash_{};
  bool unflushed_ = false, uncommitted_ = false;
  std::chrono::steady_clock::time_point last_flush_, last_commit_;
};

}  // namespace banyan
