// Text beside the engine: rows become prompts ahead of it, answers become rows behind it. Several
// workers do either, whatever there is to do.
#include <chrono>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/timer.h"
#include "tasks/job.h"

namespace banyan {
namespace {

// Records between input and output: a long one never holds up more than these.
constexpr size_t kWindow = 1024;
// How often a worker looks for input that was not there.
constexpr auto kPatience = std::chrono::milliseconds(2);
constexpr int kTagBits = 24;  // of a record's own tags

// Experts name the answer that they help to write by its tag.
void RaiseExpertTags(PromptSegment& segment, std::uint64_t bits) {
  for (ExpertRequest& expert : segment.experts) expert.tag |= bits;
  for (PromptSegment& below : segment.below) RaiseExpertTags(below, bits);
}

// Calls `visit` for every answer of the tree.
void ForEachAnswer(PromptSegment& segment, const std::function<void(AnswerRequest&)>& visit) {
  for (AnswerRequest& answer : segment.answers) visit(answer);
  for (PromptSegment& below : segment.below) ForEachAnswer(below, visit);
}

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
      InputRow row;
      bool waits = false;
      if (RecordPtr taken = TakeRow(row, waits)) {
        Prepare(row, std::move(taken));
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

// The next row that is to be asked, and its record; nothing: there is none, perhaps only not yet.
JobRunner::RecordPtr JobRunner::TakeRow(InputRow& row, bool& waits) {
  const std::lock_guard intake(intake_);
  const bool enough = options_.limit >= 0 && rows_read_ >= options_.limit;
  const RowQueue::State state = enough ? RowQueue::State::kEnd : input_.Take(row, 0.0);
  if (state == RowQueue::State::kEnd) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
  }
  waits = state != RowQueue::State::kRow;
  if (waits) return nullptr;
  ++rows_read_;
  auto record = std::make_unique<Record>();
  const auto is_done = [this](const Key128& key) { return output_.IsDone(key); };
  bool done = false;
  if (!row.problem) {
    try {
      const auto verdict = ledger_.Judge(task_.Identity(row), row.content, is_done);
      record->key = verdict.key;
      done = verdict.done;
      if (verdict.duplicate) {
        row.problem = {ErrorKind::kInput, "an earlier row has the same id"};
      }
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
  }
  const std::int64_t bytes = row.input_position - std::exchange(position_, row.input_position);
  if (row.index % options_.shards != options_.shard - 1) return nullptr;
  // An error is about a place in a file, so its key has the place; a record's key is its content.
  if (record->key == Key128{}) {
    record->key = KeyOf({"problem", fmt::format("{}:{}", row.file, row.line), row.content});
    done = is_done(record->key);
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return nullptr;
  work_.rows = rows_read_;
  work_.position = row.input_position;
  if (done) {
    ++skipped_;
    work_.skipped_bytes += bytes;
    return nullptr;
  }
  record->sequence = next_sequence_++;
  ++open_records_;
  return record;
}

void JobRunner::Prepare(InputRow& row, RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    std::vector<PromptSegment> prompts;
    if (!row.problem) {
      try {
        record->work = task_.Start(row);
        prompts = record->work->NextPrompts();
      } catch (const std::exception& e) {
        row.problem = ProblemOf(e);
      }
    }
    if (row.problem) {
      record->work.reset();
      record->rows.push_back(task_.ErrorRow(row, *row.problem));
      const std::lock_guard lock(mutex_);
      ++work_.asked.answers;
      ++work_.finished_answers;
    } else {
      record = Advance(std::move(record), std::move(prompts));
    }
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  text_seconds_ += seconds;
}

void JobRunner::Conclude(RecordPtr record) {
  double seconds = 0.0;
  {
    Timer timer(seconds);
    for (Answer& answer : record->answers) record->work->Take(std::move(answer));
    record->answers.clear();
    std::vector<PromptSegment> prompts = record->work->NextPrompts();
    record = Advance(std::move(record), std::move(prompts));
  }
  if (record) Deliver(std::move(record));
  const std::lock_guard lock(mutex_);
  text_seconds_ += seconds;
}

JobRunner::RecordPtr JobRunner::Advance(RecordPtr record, std::vector<PromptSegment> prompts) {
  Record& waiting = *record;
  const std::uint64_t sequence = record->sequence;
  for (PromptSegment& prompt : prompts) {
    ForEachAnswer(prompt, [&](AnswerRequest& answer) {
      BANYAN_CHECK(answer.tag >> kTagBits == 0);
      answer.tag |= sequence << kTagBits;
    });
    RaiseExpertTags(prompt, sequence << kTagBits);
  }
  // Answers may come while the rest is being submitted: a count of one stands for that.
  {
    const std::lock_guard lock(mutex_);
    waiting.missing = 1;
    in_flight_.emplace(sequence, std::move(record));
  }
  for (PromptSegment& prompt : prompts) {
    std::int64_t answers = 0;
    {
      const std::lock_guard lock(mutex_);
      const PromptCount count = counter_.Count(prompt);
      waiting.prompts += count;
      work_.asked += count;
      answers = count.answers;
      waiting.missing += answers;
    }
    try {
      engine_.Submit(std::move(prompt));
    } catch (const Error& e) {
      const std::lock_guard lock(mutex_);
      waiting.missing -= answers;
      work_.finished_answers += answers;
      if (stopping_) {
        waiting.abandoned = true;
      } else {
        waiting.work->Refuse(e);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  if (--waiting.missing > 0) return nullptr;
  record = std::move(in_flight_.extract(sequence).mapped());
  if (record->abandoned || record->answers.empty()) return record;  // nothing more is to come
  answered_.push_back(std::move(record));
  return nullptr;
}

// To the thread that writes.
void JobRunner::Deliver(RecordPtr record) {
  if (record->work && !record->abandoned) record->rows = record->work->Rows();
  record->work.reset();
  const std::lock_guard lock(mutex_);
  concluded_.push_back(std::move(record));
}

// Every answer to its record; records that have all of theirs go to the workers.
void JobRunner::Route(std::vector<AnswerEvent> events) {
  if (events.empty()) return;
  const std::lock_guard lock(mutex_);
  for (AnswerEvent& event : events) {
    if (!event.ended) continue;
    const auto it = in_flight_.find(event.tag >> kTagBits);
    BANYAN_CHECK(it != in_flight_.end());
    Record& record = *it->second;
    record.abandoned |= event.answer.finish == FinishReason::kCancelled;
    ++work_.finished_answers;
    work_.finished_tokens += static_cast<std::int64_t>(event.answer.tokens.size());
    event.answer.tag &= (std::uint64_t{1} << kTagBits) - 1;
    record.answers.push_back(std::move(event.answer));
    if (--record.missing > 0) continue;
    RecordPtr done = std::move(it->second);
    in_flight_.erase(it);
    if (done->abandoned) {
      done->work.reset();
      concluded_.push_back(std::move(done));
    } else {
      answered_.push_back(std::move(done));
    }
  }
  changed_.notify_all();
}

}  // namespace banyan
