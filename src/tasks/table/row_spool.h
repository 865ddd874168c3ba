// Rows of an input on the disk, to be read again in any order: a table may be longer than memory,
// and a pipe is read once. The file has no name and goes with the object.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tasks/input/input.h"

namespace banyan {

class RowSpool {
 public:
  // In $TMPDIR, else /tmp. Throws kIo.
  RowSpool();
  ~RowSpool();
  RowSpool(const RowSpool&) = delete;
  RowSpool& operator=(const RowSpool&) = delete;

  // The row's number is how many were there.
  void Add(const InputRow& row);
  size_t size() const { return ends_.size(); }
  std::int64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  // Safe to call from several threads once all rows were added.
  InputRow Read(size_t number) const;

 private:
  void Flush() const;

  int fd_ = -1;
  std::vector<std::int64_t> ends_;  // of each row in the file
  mutable std::mutex mutex_;        // guards what follows
  mutable std::string pending_;     // not in the file yet
};

}  // namespace banyan
