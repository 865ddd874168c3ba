// Rows read ahead by a thread of their own, so that a slow pipe never holds up answers that are
// being written. A bounded number of rows waits, and a bounded number of their bytes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tasks/input/input.h"

namespace banyan {

class RowQueue {
 public:
  explicit RowQueue(InputOptions options);
  ~RowQueue();  // gives up reading
  RowQueue(const RowQueue&) = delete;
  RowQueue& operator=(const RowQueue&) = delete;

  enum class State { kRow, kNothingYet, kEnd };
  // Waits for a row at most so long.
  State Take(InputRow& row, double seconds);
  std::int64_t total_bytes() const { return total_bytes_; }  // of the input; -1: unknown
  // With InputOptions::keep_given: as InputReader::Columns. Waits until they are known, or `stop`
  // (may be empty) says true.
  std::vector<std::string> Columns(const std::function<bool()>& stop);

 private:
  void Read();
  void ReadColumns();

  std::atomic<bool> cancelled_{false};
  InputReader reader_;
  const std::int64_t total_bytes_;
  const bool wants_columns_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<InputRow> rows_;
  size_t bytes_ = 0;  // of the rows' content
  std::vector<std::string> columns_;
  bool columns_known_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace banyan
