#include "tasks/job/job_rows.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "tasks/input/input.h"

namespace banyan {

bool IsInShard(const JobOptions& job, std::int64_t index) {
  return index % job.shards == job.shard - 1;
}

RowProblem RepeatedId() { return {ErrorKind::kInput, "an earlier row has the same id"}; }

bool JobRows::Next(InputRow& row) {
  while ((job_.limit < 0 || read_ < job_.limit) && input_.Next(row)) {
    ++read_;
    try {
      if (!row.problem && !identities_.Insert(KeyOf({task_.Identity(row)}))) {
        row.problem = RepeatedId();
      }
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
    if (IsInShard(job_, row.index)) return true;
  }
  return false;
}

RecordLedger::Verdict RecordLedger::Judge(std::string_view identity, std::string_view content,
                                          const IsDone& is_done) {
  // Lines may be long: hashed once.
  const Key128 hashed = KeyOf({content});
  const std::string_view line(reinterpret_cast<const char*>(hashed.data()), sizeof(hashed));
  // With the id: equal lines without ids of their own are as many records as there are lines.
  const Key128 record = KeyOf({"record", identity, line});
  const bool answered = is_done(record);
  const Key128 id = KeyOf({identity});
  const Key128 other = KeyOf({"duplicate", line, "1"});
  // An earlier run met another record with this id first, and said so: that stands.
  if (!answered && !identities_.Contains(id) && is_done(other)) return {other, true, true};
  const Key128 claim = KeyOf({identity, line});
  if (identities_.Insert(id)) {
    claims_.Insert(claim);
    return {record, false, answered};
  }
  const bool same_line = claims_.Contains(claim);
  // An earlier run met this one first.
  if (answered && !same_line) return {record, false, true};
  const int count = ++repeats_[claim];
  const Key128 key = KeyOf({same_line ? "repeated" : "duplicate", line, std::to_string(count)});
  return {key, true, is_done(key)};
}

// A row that cannot be asked stands alone, as an error.
void RowStacks::Add(TakenRow taken) {
  std::string name;
  if (task_.most_stacked() > 1 && !taken.row.problem) {
    try {
      name = task_.StackName(taken.row) + "\n" + AdapterOfRow(taken.row, model_);
    } catch (const std::exception& e) {
      taken.row.problem = ProblemOf(e);
    }
  }
  const bool alone = task_.most_stacked() == 1 || taken.row.problem;
  if (alone || name != name_) End();
  name_ = std::move(name);
  growing_.push_back(std::move(taken));
  if (alone || growing_.size() == static_cast<size_t>(task_.most_stacked())) End();
}

void RowStacks::End() {
  if (!growing_.empty()) whole_.push_back(std::exchange(growing_, {}));
}

std::vector<TakenRow> RowStacks::TakeRecord() {
  std::vector<TakenRow> record = std::move(whole_.front());
  whole_.pop_front();
  return record;
}

namespace {

constexpr std::int64_t kMostNamed = 20;  // inputs that cannot be read
constexpr size_t kMostRows = 256;
constexpr size_t kMostBytes = 64u << 20;

}  // namespace

RowQueue::RowQueue(InputOptions options)
    : reader_(std::make_unique<InputReader>(options, &cancelled_)),
      total_bytes_(reader_->total_bytes()),
      wants_header_(options.wants_header) {
  thread_ = std::thread([this] { Read(); });
}

RowQueue::RowQueue(std::unique_ptr<RowSource> source)
    : reader_(std::move(source)), total_bytes_(reader_->total_bytes()), wants_header_(true) {
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
    if (wants_header_) ReadHeader();
    while (true) {
      InputRow row;
      if (!reader_->Next(row)) break;
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

void RowQueue::ReadHeader() {
  TableHeader header = reader_->Header();
  const std::lock_guard lock(mutex_);
  header_ = std::move(header);
  header_known_ = true;
  changed_.notify_all();
}

TableHeader RowQueue::Header(const std::function<bool()>& stop) {
  if (!wants_header_) return {};
  std::unique_lock lock(mutex_);
  while (!header_known_ && !ended_ && !(stop && stop())) {
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return header_;
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

JobIntake::JobIntake(const Task& task, const Model& model, const JobOptions& options,
                     const JobOutput& output, RowQueue& input, bool reordered)
    : task_(task),
      options_(options),
      output_(output),
      input_(input),
      stacks_(task, model),
      reordered_(reordered),
      mistyped_(task.name()) {}

JobIntake::State JobIntake::Take(std::vector<TakenRow>& rows) {
  const State state = Read();
  if (state != State::kRecord) return state;
  rows = stacks_.TakeRecord();
  if (output_.done_before() > 0 || reordered_) {
    for (const TakenRow& row : rows) taken_.emplace_back(row.row.index, row.key.key);
  }
  return state;
}

std::vector<Key128> JobIntake::Taken() const {
  std::vector<std::pair<std::int64_t, Key128>> sorted = taken_;
  if (reordered_) std::ranges::stable_sort(sorted, {}, &std::pair<std::int64_t, Key128>::first);
  std::vector<Key128> keys;
  for (const auto& [index, key] : sorted) keys.push_back(key);
  return keys;
}

// Reads until a record is whole.
JobIntake::State JobIntake::Read() {
  while (!stacks_.HasRecord()) {
    InputRow row;
    const bool enough =
        (options_.limit >= 0 && rows_read_ >= options_.limit) || !stopped_at_.empty();
    const RowQueue::State state = enough ? RowQueue::State::kEnd : input_.Take(row, 0.0);
    if (state == RowQueue::State::kRow) {
      ++rows_read_;
      AddToInputHash(row);
      mistyped_.Look(row);
      TakenRow taken = Judge(std::move(row));
      if (!IsInShard(options_, taken.row.index)) continue;
      if (output_.finished() && !taken.key.done) output_.CheckSameInput(&taken.row, 0);
      if (MayGoOn(taken)) stacks_.Add(std::move(taken));
      continue;
    }
    if (state == RowQueue::State::kNothingYet) return State::kNothingYet;
    if (!stacks_.IsGathering()) return State::kEnd;
    stacks_.End();
  }
  return State::kRecord;
}

// Of all rows in their order, whatever shard they belong to.
void JobIntake::AddToInputHash(const InputRow& row) {
  const std::uint64_t bytes = row.content.size();
  input_hash_.Add(std::as_bytes(std::span(&bytes, 1))).Add(row.content);
}

// Notes what cannot be read. False: the caller is strict, and that ends the job.
bool JobIntake::MayGoOn(const TakenRow& taken) {
  const InputRow& row = taken.row;
  if (!row.problem || taken.key.done) return true;
  const std::string where =
      row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
  std::string what = row.problem->message.starts_with(row.file)
                         ? row.problem->message
                         : fmt::format("{}: {}", where, row.problem->message);
  if (options_.strict) {
    if (stopped_at_.empty()) stopped_at_ = std::move(what);
    return false;
  }
  const bool whole_file = row.ends_file || row.line <= 0;
  if (whole_file && unread_inputs_++ < kMostNamed) unread_.push_back(std::move(what));
  return true;
}

TakenRow JobIntake::Judge(InputRow row) {
  TakenRow taken;
  const auto is_done = [this](const Key128& key) { return output_.IsDone(key); };
  if (!row.problem) {
    try {
      const auto verdict = ledger_.Judge(task_.Identity(row), row.content, is_done);
      taken.key = {verdict.key, verdict.done};
      if (verdict.duplicate) row.problem = RepeatedId();
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
  }
  taken.bytes = row.input_position - std::exchange(position_, row.input_position);
  // An error is about a place in a file, so its key has the place; a record's key is its content.
  if (taken.key.key == Key128{}) {
    taken.key.key = KeyOf({"problem", fmt::format("{}:{}", row.file, row.line), row.content});
    taken.key.done = is_done(taken.key.key);
  }
  taken.row = std::move(row);
  return taken;
}

}  // namespace banyan
