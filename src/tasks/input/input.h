// Rows of a job's input: JSONL, CSV or TSV, or documents of one file each, from files, folders,
// patterns or standard input, packed or not. A row that cannot be read comes out with what is
// wrong; the rows after it come out as usual.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "base/json.h"
#include "tasks/input/input_files.h"

namespace banyan {

struct RowProblem {
  ErrorKind kind = ErrorKind::kInput;
  std::string message;
};

// What a row's error says of anything that was thrown while it was read, asked or written. Throws
// WorkStopped on: it concerns more than the row.
RowProblem ProblemOf(const std::exception& thrown);

struct InputRow {
  std::string file;
  std::int64_t line = 0;    // from 1; where a CSV row begins; 0: the whole file
  std::int64_t number = 0;  // from 1, of the row in a file whose lines are no rows; else 0
  std::int64_t index = 0;   // of the row in the whole input, from 0
  std::string content;      // its bytes, for its key
  // An object with our field names; what could be read when `problem`. A row that was read has an
  // `id`: its own, or the line's number (with the file's name before it where there are several
  // files or other rows bring ids), or a document's file name.
  Json value;
  Json given;  // with InputOptions::keep_given: a table's row, under its own names
  std::optional<RowProblem> problem;
  bool ends_file = false;           // with a problem: nothing more of the file can be read
  std::int64_t input_position = 0;  // bytes of the whole input taken when it was read
};

struct InputOptions {
  std::vector<std::string> files;             // expanded
  std::string format;                         // a kind's name, or empty: by name, else by content
  std::map<std::string, std::string> fields;  // our name → the file's name
  std::vector<FileField> file_fields;         // the same of some files; these count more
  std::string encoding;                       // of text; empty: UTF-8
  char delimiter = 0;                         // of CSV; 0: as the header has it
  // Columns that a CSV file must have, by our names: one of each list.
  std::vector<std::vector<std::string>> needed;
  std::string document_field = "context";         // what the text of a document is called
  std::string other_document_field = {};          // see JobOptions
  std::map<std::string, std::string> names = {};  // what rows call a file instead of its path
  std::string problem_field = {};                 // see JobOptions
  bool keep_given = false;    // rows of tables come with all that their file has
  bool wants_header = false;  // of a job: the tables' header is read before their rows
  std::int64_t limit = -1;    // no more rows than this are wanted; -1: all

  // As one of the files has them.
  std::map<std::string, std::string> FieldsOf(const std::string& file) const;
  // For each of `needed`: how the file may call it.
  std::vector<std::vector<std::string>> NeededOf(const std::string& file) const;
};

// What can be said against a file before its rows are read: it cannot be opened, is of a format
// that we do not read, or is CSV without a needed column.
std::optional<RowProblem> ProblemOfFile(const std::string& file, const InputOptions& options);

class InputRows;

// Of the input's tables: all columns, in their order, and what stands between the fields of each
// row; 0 where not all have the same.
struct TableHeader {
  std::vector<std::string> columns;
  char delimiter = 0;
};

// Rows one after another: of files, or of what was read before.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // False at the end.
  virtual bool Next(InputRow& row) = 0;
  virtual TableHeader Header() = 0;
  virtual std::int64_t total_bytes() const = 0;  // of all rows; -1: unknown
};

class InputReader : public RowSource {
 public:
  // Reading ends early when `cancelled` (which may be null) becomes true.
  explicit InputReader(InputOptions options, const std::atomic<bool>* cancelled = nullptr);
  ~InputReader() override;

  // False at the end of the last file. A file that cannot be read is a row with a problem; the only
  // one whose rows cannot mean anything throws kUsage.
  bool Next(InputRow& row) override;
  // What every file has in common when each is a table; else nothing. Call it before Next: it waits
  // for the header of a table that comes through a pipe. Throws as Next.
  TableHeader Header() override;
  std::int64_t total_bytes() const override { return total_bytes_; }

 private:
  void OpenNext();
  void Rename(Json& value) const;
  void TakeProblem(InputRow& row) const;
  bool IsBadRowOfReader(const InputRow& row) const;
  void GiveId(InputRow& row, bool blank_is_none);
  bool SomeRowBringsId() const;

  InputOptions options_;
  const std::atomic<bool>* cancelled_;
  size_t next_file_ = 0;
  std::map<std::string, std::string> fields_;  // of the file being read
  std::unique_ptr<InputRows> rows_;            // of the file being read; null: open the next
  std::int64_t total_bytes_ = 0;
  std::int64_t finished_bytes_ = 0;  // of the files before it
  std::int64_t next_index_ = 0;
  // A row has an id of its own: numbers may be ids of other rows. Unknown before the first row.
  std::optional<bool> has_ids_;
};

// What a field is called whose own name stands for another one (`--field`): "input_" before it,
// until no field of `taken` has that name.
std::string FreeInputName(const std::string& name, const std::vector<std::string>& taken);

// A row's id: a string or a number. Throws kInput when it has none.
Json IdOf(const Json& row);

// The adapter that a row names in the field `adapter`; empty: none, or the model has no adapters to
// choose from, so that the field is one of the user's own. Throws kInput for an unknown name.
std::string AdapterOfRow(const InputRow& row, const Model& model);

}  // namespace banyan
