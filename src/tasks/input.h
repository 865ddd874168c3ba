// Rows of a job's input: JSONL or CSV, from files, patterns or standard input, packed or not. A row
// that cannot be read comes out with what is wrong; the rows after it come out as usual.
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
#include "base/json.h"

namespace banyan {

struct RowProblem {
  ErrorKind kind = ErrorKind::kInput;
  std::string message;
};

// What a row's error says of anything that was thrown while it was read, asked or written.
RowProblem ProblemOf(const std::exception& thrown);

struct InputRow {
  std::string file;
  std::int64_t line = 0;   // from 1; where a CSV row begins
  std::int64_t index = 0;  // of the row in the whole input, from 0
  std::string content;     // its bytes, for its key
  Json value;              // an object with our field names; what could be read when `problem`
  std::optional<RowProblem> problem;
  std::int64_t input_position = 0;  // bytes of the whole input taken when it was read
};

// Patterns expanded in order, each one's files sorted. A pattern never means the job's own output,
// nor any journal. Throws kNotFound for what matches nothing.
std::vector<std::string> ExpandInputs(const std::vector<std::string>& inputs,
                                      const std::string& output);

struct InputOptions {
  std::vector<std::string> files;             // expanded
  std::string format;                         // jsonl, csv, or empty: by name
  std::map<std::string, std::string> fields;  // our name → the file's name
};

class InputReader {
 public:
  // Reading ends early when `cancelled` (which may be null) becomes true.
  explicit InputReader(InputOptions options, const std::atomic<bool>* cancelled = nullptr);
  ~InputReader();

  // False at the end of the last file.
  bool Next(InputRow& row);
  std::int64_t total_bytes() const { return total_bytes_; }  // of all files; -1: unknown

 private:
  class Rows;
  class JsonLines;
  class CsvRows;
  std::unique_ptr<Rows> Open(const std::string& file) const;
  void Rename(Json& value) const;

  InputOptions options_;
  const std::atomic<bool>* cancelled_;
  size_t next_file_ = 0;
  std::unique_ptr<Rows> rows_;  // of the file being read; null: open the next
  std::int64_t total_bytes_ = 0;
  std::int64_t finished_bytes_ = 0;  // of the files before it
  std::int64_t next_index_ = 0;
};

}  // namespace banyan
