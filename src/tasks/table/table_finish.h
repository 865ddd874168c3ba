// The last pass of `rank` and `group`: a job has given every row its answer in a file of its own;
// this reads them all and writes the output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "banyan/table.h"
#include "base/json.h"

namespace banyan {

// The rows of such a file, one after another, each with where it begins. Throws kIo.
void ForEachRow(const std::string& path,
                const std::function<void(nlohmann::ordered_json row, std::int64_t begin)>& hear);

// Rows to the output, in its format; the columns of a table are the fields of the first row.
class FinishedRows {
 public:
  // Throws as GuardOutput. `job` must outlive it.
  explicit FinishedRows(const JobOptions& job);
  ~FinishedRows();

  void Write(nlohmann::ordered_json fields);
  // Puts the output in its place. Returns how many rows were written.
  std::int64_t Finish();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Where the rows of the job stand: beside the output, or, where that is no file, at a temporary
// place that is removed with the object.
class RowsFile {
 public:
  // `part`: "OUTPUT.rows.jsonl".
  explicit RowsFile(const std::string& output, const std::string& part = "rows");
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  const std::string& path() const { return path_; }
  bool temporary() const { return !folder_.empty(); }
  // The job that writes them: resumed where its file is there.
  JobOptions JobOf(const JobOptions& job) const;

 private:
  std::string path_, folder_;
};

// CheckJob for an output that is written at the end alone: nothing of it need be there to resume.
void CheckStagedJob(JobOptions job);

// Where the rows of such a file begin: by falling score; equal scores have the input's order, and
// error rows come last. `errors`: how many these are.
struct RankedPlaces {
  std::vector<std::int64_t> begins;
  size_t errors = 0;
};
RankedPlaces PlacesByScore(const std::string& rows_file);
// Rows in that order, with their `rank` from 1. At most `table.top` of them, if it is not 0.
// Returns how many were written.
std::int64_t WriteRanked(const TableAskOptions& table, const std::string& rows_file,
                         const RankedPlaces& places, const JobOptions& job);
// A row for every answer: `group`, `rows`, `members` (ids), the largest group first; then error
// rows. Without labels, answers that differ in case, punctuation or space alone are one group.
std::int64_t WriteGroups(const TableAskOptions& table, const std::string& rows_file,
                         const JobOptions& job);

}  // namespace banyan
