// Jobs, beyond banyan/job.h: merging the outputs of shards, and the rows and texts of inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/job.h"

namespace banyan {

// The outputs of `--shard 1/n` … `n/n` become the output of one job (`banyan merge`).
struct MergeOptions {
  std::vector<std::string> shards;  // outputs, in any order; each with its journal beside it
  std::string output = "-";         // of the shards' format; .gz and .zst are packed
  // Rows in the order of the input; the shards must have been run so.
  bool ordered = false;
  bool overwrite = false;  // whatever the output holds
  // Of the shards, in any order; empty: none are joined.
  std::vector<std::string> receipts;
};

struct MergeReceipt {
  std::string task, output;
  int shards = 0;
  std::int64_t records = 0, rows = 0, error_rows = 0;
  std::string answers_hash;  // that of one job over the whole input
  std::string ToText() const;
  std::string ToJson() const;  // with the sums of the shards' receipts, where they were given

  // Of the receipts: JSON of an object; empty: none.
  std::string sums;
};

// Checks that the shards are all there, finished, as their jobs wrote them, parts of the same job
// and no record in two of them, and writes their rows and the journal that one job would have:
// --resume goes on with it. Nothing is written unless all of this holds. Throws kUsage, kNotFound,
// kFormat, kIo.
MergeReceipt MergeShards(const MergeOptions& options);

class InputReader;

// A row of an input, as a job reads it.
struct ReadRow {
  std::string file;       // as error rows call it
  std::int64_t line = 0;  // from 1; 0: the whole file
  // JSON of an object with our names of fields and an id. Of a row that cannot be read: what could
  // be, and kProblemField with the reason, so that a job that reads this has the same error row.
  std::string json;
  bool is_bad = false;
};

// The rows of a job's input one after another, for programs that deal them out to several jobs. Of
// `job`, what says where rows come from counts.
class RowReader {
 public:
  // Throws as CheckJob does.
  explicit RowReader(const JobOptions& job);
  ~RowReader();
  // False at the end. Throws kUsage when no row of the only file can mean anything.
  bool Next(ReadRow& row);

 private:
  std::unique_ptr<InputReader> reader_;
};

// A text of an input, for commands that need nothing else of a row.
struct TextRow {
  std::string id = "null";  // as JSON: the row's own, else its line, or a document's file name
  std::string text;
  std::string problem;  // why there is no text, with file and line; empty: there is one
  ErrorKind kind = ErrorKind::kInput;  // of the problem
};

// Of `job`, what says where rows come from counts (inputs, their format and fields, limit, strict).
// A document is a text; of rows it is the field "text". Throws as CheckJob, and at the first
// problem when the job is strict.
void ForEachText(const JobOptions& job, const std::function<void(const TextRow&)>& take);

}  // namespace banyan
