#include "tasks/job/text_workers.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/timing.h"

namespace banyan {
namespace {

// Records between input and output, for each device: a long one never holds up more than these.
constexpr size_t kWindow = 1024;
// How often a worker looks for input that was not there.
constexpr auto kPatience = std::chrono::milliseconds(2);

int TextThreads(const Model& model) {
  const int most = 4 * static_cast<int>(model.copies());
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, most);
}

}  // namespace

void TextWorkers::Start() {
  for (int i = 0; i < TextThreads(model_); ++i) threads_.emplace_back([this] { Work(); });
}

void TextWorkers::Stop() {
  const std::lock_guard lock(mutex_);
  work_.reading = false;
  stopping_ = true;
}

void TextWorkers::End() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<std::unique_ptr<JobRecord>> TextWorkers::TakeConcluded() {
  const std::lock_guard lock(mutex_);
  return std::exchange(concluded_, {});
}

void TextWorkers::CountWritten(size_t records, std::int64_t answered_rows) {
  if (records == 0) return;
  const std::lock_guard lock(mutex_);
  open_records_ -= records;
  work_.answered_rows -= answered_rows;
  changed_.notify_all();
}

bool TextWorkers::Over(size_t held) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return !work_.reading && open_records_ == held;
}

bool TextWorkers::met_unreadable() const {
  const std::lock_guard lock(mutex_);
  return unreadable_;
}

std::optional<SplitText> TextWorkers::TakeSplit() {
  const std::lock_guard lock(mutex_);
  if (!first_split_ || std::exchange(said_split_, true)) return std::nullopt;
  return first_split_;
}

WorkCount TextWorkers::work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

double TextWorkers::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

void TextWorkers::Work() {
  try {
    while (true) {
      RecordPtr record;
      {
        std::unique_lock lock(mutex_);
        if (ended_) return;
        if (!answered_.empty()) {
          record = std::move(answered_.front());
          answered_.pop_front();
        } else if (!WantsMore()) {
          changed_.wait_for(lock, kPatience);
          continue;
        }
      }
      if (record) {
        Conclude(std::move(record));
        continue;
      }
      std::vector<InputRow> rows;
      bool waits = false;
      if (RecordPtr taken = TakeRecord(rows, waits)) {
        Prepare(std::move(rows), std::move(taken));
      } else if (waits) {
        std::unique_lock lock(mutex_);
        if (answered_.empty() && !ended_) changed_.wait_for(lock, kPatience);
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// REQUIRES: mutex_. Twice what the engine wants: while it admits one half, the other is prepared.
bool TextWorkers::WantsMore() const {
  return work_.reading && open_records_ < kWindow * model_.copies() &&
         engine_.waiting() < 2 * engine_.wanted_waiting();
}

// The next record that is to be asked, with its rows; nothing: there is none, perhaps only not yet.
// Holds intake_mutex_ until the record counts as open, so that the input's end is noted after it.
TextWorkers::RecordPtr TextWorkers::TakeRecord(std::vector<InputRow>& rows, bool& waits) {
  const std::lock_guard intake(intake_mutex_);
  std::vector<TakenRow> taken;
  const JobIntake::State state = intake_.Take(taken);
  const std::lock_guard lock(mutex_);
  unreadable_ = !intake_.stopped_at().empty();
  if (unreadable_ || state == JobIntake::State::kEnd) work_.reading = false;
  waits = state != JobIntake::State::kRecord;
  if (waits || stopping_) return nullptr;
  work_.rows = intake_.rows_read();
  work_.position = taken.back().row.input_position;
  std::vector<TakenKey> keys;
  std::vector<std::int64_t> places;
  bool all_done = true;
  for (TakenRow& one : taken) {
    keys.push_back(one.key);
    places.push_back(one.row.index);
    all_done = all_done && one.key.done;
    if (one.key.done) {
      ++work_.skipped_records;
      work_.skipped_bytes += one.bytes;
    }
    rows.push_back(std::move(one.row));
  }
  if (all_done) return nullptr;
  auto record = std::make_unique<JobRecord>(next_sequence_++);
  record->keys = std::move(keys);
  record->places = std::move(places);
  ++open_records_;
  return record;
}

void TextWorkers::Prepare(std::vector<InputRow> rows, RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    for (InputRow& row : rows) {
      const bool there = row.given.is_object();
      record->given.push_back(there ? std::make_shared<const Json>(std::move(row.given)) : nullptr);
    }
    record->run.Start(task_, model_, rows);
    if (const size_t parts = record->run.parts(); parts > 1) {
      const std::lock_guard lock(mutex_);
      if (!first_split_) first_split_ = {rows.front().value.value("id", Json()), parts};
    }
    if (record->run.done()) {  // nothing was to be asked
      const std::lock_guard lock(mutex_);
      work_.asked.answers += record->run.rows();
      work_.finished_answers += record->run.rows();
    }
    record = Advance(std::move(record));
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  seconds_ += seconds;
}

void TextWorkers::Conclude(RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    record->run.Digest();
    record = Advance(std::move(record));
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  seconds_ += seconds;
}

TextWorkers::RecordPtr TextWorkers::Advance(RecordPtr record) {
  while (!record->run.done()) {
    record = SubmitRound(std::move(record));
    if (!record) return nullptr;  // answers are to come
    record->run.Digest();
  }
  return record;
}

// Answers may come while the rest is being submitted.
TextWorkers::RecordPtr TextWorkers::SubmitRound(RecordPtr record) {
  JobRecord& asking = *record;
  const std::uint64_t sequence = asking.run.number();
  std::vector<RecordPrompt> prompts = asking.run.TakePrompts();
  {
    const std::lock_guard lock(mutex_);
    CountAnswered(asking);
    in_flight_.emplace(sequence, std::move(record));
  }
  const bool first = asking.prompts.answers == 0;
  bool over = false;
  for (RecordPrompt& prompt : prompts) {
    {
      const std::lock_guard lock(mutex_);
      const PromptCount count = counter_.Count(prompt.tree);
      asking.prompts += count;
      work_.asked += count;
      if (first) {
        asking.first_prompts += count;
        work_.first_asked += count;
      }
    }
    std::optional<Error> refused;
    try {
      engine_.Submit(std::move(prompt.tree));
    } catch (const Error& error) {
      refused = error;
    }
    const std::lock_guard lock(mutex_);
    if (refused) work_.finished_answers += prompt.answers;
    over = !refused    ? asking.run.Submitted()
           : stopping_ ? asking.run.Withdraw(prompt.answers)
                       : asking.run.Refuse(prompt.answers, *refused);
  }
  if (!over) return nullptr;
  const std::lock_guard lock(mutex_);
  return std::move(in_flight_.extract(sequence).mapped());
}

// To the thread that writes.
void TextWorkers::Deliver(RecordPtr record) {
  record->rows = record->run.TakeRows();
  for (size_t i = 0; i < record->rows.size() && !record->given.empty(); ++i) {
    record->rows[i].given = record->given[std::min(i, record->given.size() - 1)];
  }
  const std::lock_guard lock(mutex_);
  CountAnswered(*record);
  work_.concluded_first += record->first_prompts;
  work_.concluded += record->prompts;
  concluded_.push_back(std::move(record));
}

// REQUIRES: mutex_.
void TextWorkers::CountAnswered(JobRecord& record) {
  const std::int64_t now = record.run.answered_rows();
  work_.answered_rows += now - std::exchange(record.answered, now);
}

void TextWorkers::Route(std::vector<AnswerEvent> events) {
  if (events.empty()) return;
  const std::lock_guard lock(mutex_);
  for (AnswerEvent& event : events) {
    if (!event.ended) continue;
    const auto it = in_flight_.find(RecordOfTag(event.tag));
    BANYAN_CHECK(it != in_flight_.end());
    JobRecord& record = *it->second;
    ++work_.finished_answers;
    const auto tokens = static_cast<std::int64_t>(event.answer.tokens.size());
    work_.finished_tokens += tokens;
    work_.finished_squares += static_cast<double>(tokens) * static_cast<double>(tokens);
    record.generated += tokens;
    const bool over = record.run.Receive(std::move(event));
    CountAnswered(record);
    if (!over) continue;
    RecordPtr whole = std::move(it->second);
    in_flight_.erase(it);
    if (whole->run.cancelled()) {
      concluded_.push_back(std::move(whole));
    } else {
      answered_.push_back(std::move(whole));
    }
  }
  changed_.notify_all();
}

}  // namespace banyan
