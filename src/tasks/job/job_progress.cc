#include "tasks/job/job_progress.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/timing.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

PromptCount& PromptCount::operator+=(const PromptCount& other) {
  answers += other.answers;
  prompt_tokens += other.prompt_tokens;
  unique_tokens += other.unique_tokens;
  longest_prompt = std::max(longest_prompt, other.longest_prompt);
  answer_tokens_limit += other.answer_tokens_limit;
  return *this;
}

PromptCount PromptCounter::Count(const PromptSegment& root) {
  PromptCount count;
  Visit(root, NodeId(), 0, std::hash<std::string>()(root.adapter), count);
  forest_.Forget();
  return count;
}

void PromptCounter::Visit(const PromptSegment& segment, NodeId parent, std::int64_t above,
                          std::uint64_t scope, PromptCount& count) {
  NodeId node = parent;
  if (!segment.tokens.empty()) {
    const SharingForest::Found found = forest_.Add(
        parent,
        {.tokens = segment.tokens, .first_position = segment.first_position, .scope = scope});
    count.unique_tokens += found.computed();
    node = found.node;
  }
  const std::int64_t length = above + static_cast<std::int64_t>(segment.tokens.size());
  for (const AnswerRequest& answer : segment.answers) {
    ++count.answers;
    count.prompt_tokens += length;
    count.longest_prompt = std::max(count.longest_prompt, length);
    count.answer_tokens_limit +=
        answer.forced.empty() ? answer.max_new : static_cast<std::int64_t>(answer.forced.size());
  }
  for (size_t i = 0; i < segment.experts.size(); ++i) {  // that help with an answer elsewhere
    count.prompt_tokens += length;
    count.longest_prompt = std::max(count.longest_prompt, length);
  }
  for (const PromptSegment& below : segment.below) Visit(below, node, length, scope, count);
}

ProgressMeter::ProgressMeter(const JobOptions& options)
    : options_(options), start_(Clock::now()), last_report_(start_) {}

void ProgressMeter::AddWritten(std::int64_t records, const PromptCount& prompts,
                               std::int64_t generated) {
  progress_.records += records;
  progress_.prompt_tokens += prompts.prompt_tokens;
  progress_.saved_tokens += prompts.prompt_tokens - prompts.unique_tokens;
  written_tokens_ += generated;
}

bool ProgressMeter::IsDue(bool last) const {
  constexpr double kSecondsBetween = 0.2;
  return options_.progress && (last || SecondsSince(last_report_) >= kSecondsBetween);
}

void ProgressMeter::Report(const State& state) {
  last_report_ = Clock::now();
  progress_.seconds = SecondsSince(start_);
  progress_.rows = state.rows;
  progress_.error_rows = state.error_rows;
  progress_.skipped = state.work.skipped_records;
  progress_.generated_tokens = state.engine.generated_tokens;
  progress_.last = state.last;
  EstimateRest(state);
  options_.progress(progress_);
}

// What is done of everything. What was read is known; what was not is taken to be like it, byte for
// byte. Nothing is known of a pipe before its end.
void ProgressMeter::EstimateRest(const State& state) {
  const WorkCount& work = state.work;
  // Not fewer than before: some are asked about again. Those of an interrupted job are not kept.
  progress_.answered = progress_.last
                           ? progress_.rows
                           : std::max(progress_.answered, progress_.rows + work.answered_rows);
  progress_.seconds_left = -1.0;
  if (progress_.last && state.complete) progress_.fraction = 1.0;
  const auto taken = static_cast<double>(work.position - work.skipped_bytes);
  const bool unknown = work.reading && (state.total_bytes < 0 || taken <= 0.0);
  if (progress_.last || unknown || work.asked.answers == 0) return;
  double scale = 1.0;
  if (work.reading) {
    auto unread = static_cast<double>(state.total_bytes - work.position);
    if (options_.limit >= 0 && work.rows > 0) {
      const auto rows_left = static_cast<double>(options_.limit - work.rows);
      unread = std::min(
          unread, rows_left * static_cast<double>(work.position) / static_cast<double>(work.rows));
    }
    scale = (taken + std::max(unread, 0.0)) / taken;
  }
  const auto asked = static_cast<double>(work.asked.answers);
  const double fraction = static_cast<double>(work.finished_answers) / (asked * scale);
  constexpr double kNotQuite = 0.999;
  progress_.fraction = std::min(kNotQuite, std::max({0.0, progress_.fraction, fraction}));
  // Records that are under way will ask as much again as those that are over did.
  const auto in_all = [&](std::int64_t PromptCount::*what) {
    const std::int64_t first = work.concluded_first.*what;
    if (first <= 0) return static_cast<double>(work.asked.*what) * scale;
    const double again = static_cast<double>(work.concluded.*what) / static_cast<double>(first);
    return static_cast<double>(work.first_asked.*what) * again * scale;
  };
  JobMoment now;
  now.seconds = progress_.seconds;
  now.prefilled = static_cast<double>(state.engine.prefilled_tokens);
  now.generated = static_cast<double>(state.engine.generated_tokens);
  now.finished_answers = static_cast<double>(work.finished_answers);
  now.finished_tokens = static_cast<double>(work.finished_tokens);
  now.finished_squares = work.finished_squares;
  now.expected_prefill = in_all(&PromptCount::unique_tokens);
  now.expected_answers = std::max(in_all(&PromptCount::answers), asked * scale);
  now.most_tokens_of_answer =
      std::max(1.0, static_cast<double>(work.asked.answer_tokens_limit) / asked);
  progress_.seconds_left = time_left_.After(now);
}

void ProgressMeter::CountWritten(JobReceipt& receipt) const {
  Receipt& engine = receipt.engine;
  const std::int64_t computed = engine.prefilled_tokens + engine.generated_tokens;
  engine.prompt_tokens = progress_.prompt_tokens;
  engine.prefilled_tokens =
      std::min(engine.prefilled_tokens, progress_.prompt_tokens - progress_.saved_tokens);
  engine.generated_tokens = std::min(engine.generated_tokens, written_tokens_);
  receipt.unwritten_tokens = computed - engine.prefilled_tokens - engine.generated_tokens;
}

}  // namespace banyan
