// Text beside the engine: rows become prompts ahead of it, answers become rows behind it. Several
// workers do either, whatever there is to do.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/timing.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

// Records between input and output: a long one never holds up more than these.
constexpr size_t kWindow = 1024;
// How often a worker looks for input that was not there.
constexpr auto kPatience = std::chrono::milliseconds(2);

}  // namespace

void JobRunner::WorkOnText() {
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
bool JobRunner::WantsMore() const {
  return reading_ && open_records_ < kWindow && engine_.waiting() < 2 * engine_.wanted_waiting();
}

void JobRunner::Prepare(std::vector<InputRow> rows, RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    for (InputRow& row : rows) {
      const bool there = row.given.is_object();
      record->given.push_back(there ? std::make_shared<const Json>(std::move(row.given)) : nullptr);
    }
    record->run.Start(task_, *model_, rows);
    if (record->run.done()) {  // nothing was to be asked
      const std::lock_guard lock(mutex_);
      work_.asked.answers += record->run.rows();
      work_.finished_answers += record->run.rows();
    }
    record = Advance(std::move(record));
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  text_seconds_ += seconds;
}

void JobRunner::Conclude(RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    record->run.Digest();
    record = Advance(std::move(record));
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  text_seconds_ += seconds;
}

JobRunner::RecordPtr JobRunner::Advance(RecordPtr record) {
  while (!record->run.done()) {
    record = SubmitRound(std::move(record));
    if (!record) return nullptr;  // answers are to come
    record->run.Digest();
  }
  return record;
}

// Answers may come while the rest is being submitted.
JobRunner::RecordPtr JobRunner::SubmitRound(RecordPtr record) {
  Record& asking = *record;
  const std::uint64_t sequence = asking.run.number();
  std::vector<RecordPrompt> prompts = asking.run.TakePrompts();
  {
    const std::lock_guard lock(mutex_);
    CountAnswered(asking);
    in_flight_.emplace(sequence, std::move(record));
  }
  bool over = false;
  for (RecordPrompt& prompt : prompts) {
    {
      const std::lock_guard lock(mutex_);
      const PromptCount count = counter_.Count(prompt.tree);
      asking.prompts += count;
      work_.asked += count;
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
void JobRunner::Deliver(RecordPtr record) {
  record->rows = record->run.TakeRows();
  for (size_t i = 0; i < record->rows.size() && !record->given.empty(); ++i) {
    record->rows[i].given = record->given[std::min(i, record->given.size() - 1)];
  }
  const std::lock_guard lock(mutex_);
  CountAnswered(*record);
  concluded_.push_back(std::move(record));
}

// REQUIRES: mutex_.
void JobRunner::CountAnswered(Record& record) {
  const std::int64_t now = record.run.answered_rows();
  work_.answered_rows += now - std::exchange(record.answered, now);
}

// Every answer to its record; records that have all of theirs go to the workers.
void JobRunner::Route(std::vector<AnswerEvent> events) {
  if (events.empty()) return;
  const std::lock_guard lock(mutex_);
  for (AnswerEvent& event : events) {
    if (!event.ended) continue;
    const auto it = in_flight_.find(RecordOfTag(event.tag));
    BANYAN_CHECK(it != in_flight_.end());
    Record& record = *it->second;
    ++work_.finished_answers;
    const auto tokens = static_cast<std::int64_t>(event.answer.tokens.size());
    work_.finished_tokens += tokens;
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
