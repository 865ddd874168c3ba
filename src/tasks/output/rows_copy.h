// The rows of a run once more, as JSONL in a file of the caller's own (JobOptions::rows_copy). The
// job does not depend on it: a copy that cannot be written is removed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "tasks/output/row_format.h"

namespace banyan {

class RowsCopy {
 public:
  // Of an empty path there is none.
  explicit RowsCopy(std::string path) : path_(std::move(path)) {}

  // The rows of one record.
  void Add(std::span<const OutputRow> rows);
  void Flush();
  // All records that were added, by their numbers from 0, in another order.
  void Reorder(const std::vector<size_t>& records);

 private:
  void Try(const std::function<void()>& write);

  const std::string path_;
  std::unique_ptr<OutputFile> file_;  // null: nothing was written yet
  std::vector<size_t> bytes_;         // of each record
  bool failed_ = false;
};

}  // namespace banyan
