// Text beside the engine: rows become prompts ahead of it, answers become rows behind it. Several
// workers do either, whatever there is to do.
#include <chrono>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/timer.h"
#include "tasks/job.h"
#include "tasks/row_adapter.h"

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
    std::vector<PromptSegment> prompts;
    std::optional<RowProblem> problem = rows.front().problem;
    if (!problem) {
      try {
        record->adapter = AdapterOfRow(rows.front(), *model_);
        record->work = rows.size() == 1 ? task_.Start(rows.front()) : task_.StartStack(rows);
        prompts = record->work->NextPrompts();
      } catch (const std::exception& e) {
        problem = ProblemOf(e);
      }
    }
    if (problem) {
      record->work.reset();
      for (const InputRow& row : rows) record->rows.push_back(task_.ErrorRow(row, *problem));
      const std::lock_guard lock(mutex_);
      work_.asked.answers += static_cast<std::int64_t>(rows.size());
      work_.finished_answers += static_cast<std::int64_t>(rows.size());
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
    prompt.adapter = waiting.adapter;
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
