#include "tasks/job/row_queue.h"

#include <chrono>

namespace banyan {
namespace {

constexpr size_t kMostRows = 256;
constexpr size_t kMostBytes = 64u << 20;

}  // namespace

RowQueue::RowQueue(InputOptions options)
    : reader_(options, &cancelled_),
      total_bytes_(reader_.total_bytes()),
      wants_columns_(options.keep_given) {
  thread_ = std::thread([this] { Read(); });
}

RowQueue::~RowQueue() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RowQueue::Read() {
  try {
    if (wants_columns_) ReadColumns();
    while (true) {
      InputRow row;
      if (!reader_.Next(row)) break;
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [&] { return cancelled_ || (rows_.size() < kMostRows && bytes_ < kMostBytes); });
      if (cancelled_) break;
      bytes_ += row.content.size();
      rows_.push_back(std::move(row));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void RowQueue::ReadColumns() {
  std::vector<std::string> columns = reader_.Columns();
  const std::lock_guard lock(mutex_);
  columns_ = std::move(columns);
  columns_known_ = true;
  changed_.notify_all();
}

std::vector<std::string> RowQueue::Columns(const std::function<bool()>& stop) {
  if (!wants_columns_) return {};
  std::unique_lock lock(mutex_);
  while (!columns_known_ && !ended_ && !(stop && stop())) {
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return columns_;
}

RowQueue::State RowQueue::Take(InputRow& row, double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return !rows_.empty() || ended_; });
  if (!rows_.empty()) {
    row = std::move(rows_.front());
    rows_.pop_front();
    bytes_ -= row.content.size();
    changed_.notify_all();
    return State::kRow;
  }
  if (!ended_) return State::kNothingYet;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return State::kEnd;
}

}  // namespace banyan
