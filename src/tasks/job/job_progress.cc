// What the job runner says of itself: progress on the way, the receipt at the end. How a receipt
// looks is job_receipt.cc.
#include <sys/resource.h>

#include <algorithm>

#include "base/timing.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void JobRunner::ReportProgress(bool last) {
  constexpr double kSecondsBetween = 0.2;
  if (!options_.progress || output_.finished() ||
      (!last && SecondsSince(last_report_) < kSecondsBetween))
    return;
  last_report_ = Clock::now();
  const Receipt receipt = engine_.receipt();
  progress_.seconds = SecondsSince(start_);
  progress_.rows = output_.rows() - first_rows_;
  progress_.error_rows = output_.error_rows() - first_errors_;
  progress_.generated_tokens = receipt.generated_tokens;
  progress_.last = last;
  Reckon(receipt);
  options_.progress(progress_);
}

// What is done of everything. What was read is known; what was not is taken to be like it, byte for
// byte. Nothing is known of a pipe before its end.
void JobRunner::Reckon(const Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  progress_.skipped = skipped_;
  // Not fewer than before: some are asked about again. Those of an interrupted job are not kept.
  progress_.answered = progress_.last
                           ? progress_.rows
                           : std::max(progress_.answered, progress_.rows + work_.answered_rows);
  progress_.seconds_left = -1.0;
  if (progress_.last && end_ == JobEnd::kComplete) progress_.fraction = 1.0;
  const auto taken = static_cast<double>(work_.position - work_.skipped_bytes);
  const bool unknown = reading_ && (input_.total_bytes() < 0 || taken <= 0.0);
  if (progress_.last || unknown || work_.asked.answers == 0) return;
  double scale = 1.0;
  if (reading_) {
    auto unread = static_cast<double>(input_.total_bytes() - work_.position);
    if (options_.limit >= 0 && work_.rows > 0) {
      const auto rows_left = static_cast<double>(options_.limit - work_.rows);
      unread = std::min(unread, rows_left * static_cast<double>(work_.position) /
                                    static_cast<double>(work_.rows));
    }
    scale = (taken + std::max(unread, 0.0)) / taken;
  }
  const auto asked = static_cast<double>(work_.asked.answers);
  const double fraction = static_cast<double>(work_.finished_answers) / (asked * scale);
  constexpr double kNotQuite = 0.999;
  progress_.fraction = std::min(kNotQuite, std::max({0.0, progress_.fraction, fraction}));
  // Answers that came count as they are; until there are many, also some of a likely length.
  constexpr double kLikely = 4.0, kLikelyPart = 0.25;
  const auto finished = static_cast<double>(work_.finished_answers);
  const double limit = static_cast<double>(work_.asked.answer_tokens_limit) / asked;
  const double mean = (static_cast<double>(work_.finished_tokens) + kLikely * kLikelyPart * limit) /
                      (finished + kLikely);
  const double all = (static_cast<double>(work_.asked.unique_tokens) + asked * mean) * scale;
  const auto done = static_cast<double>(receipt.prefilled_tokens + receipt.decode_rows);
  if (done > 0.0) {
    progress_.seconds_left = progress_.seconds * std::max(0.0, all - done) / done;
  }
}

// A job that ended early has computed more than its rows are made of; the rows count.
void JobRunner::CountWritten(JobReceipt& receipt) const {
  Receipt& engine = receipt.engine;
  const std::int64_t computed = engine.prefilled_tokens + engine.generated_tokens;
  engine.prompt_tokens = progress_.prompt_tokens;
  engine.prefilled_tokens =
      std::min(engine.prefilled_tokens, progress_.prompt_tokens - progress_.saved_tokens);
  engine.generated_tokens = std::min(engine.generated_tokens, written_tokens_);
  receipt.unwritten_tokens = computed - engine.prefilled_tokens - engine.generated_tokens;
}

JobReceipt JobRunner::MakeReceipt() {
  JobReceipt receipt;
  receipt.task = task_.name();
  receipt.end = end_;
  receipt.backend = model_->backend_name();
  receipt.precision = model_->precision();
  receipt.strategy = StrategyName(strategy_);
  receipt.fingerprint = model_->fingerprint();
  receipt.output = options_.output;
  receipt.finished_before = output_.finished();
  receipt.records = progress_.records;
  receipt.skipped = skipped_;
  receipt.not_in_input =
      end_ == JobEnd::kComplete && options_.limit < 0 ? output_.done_before() - skipped_ : 0;
  receipt.first_error = first_error_;
  receipt.unread_inputs = unread_inputs_;
  receipt.first_unread = first_unread_;
  receipt.stopped_at = stopped_at_;
  receipt.rows = output_.rows();
  receipt.error_rows = output_.error_rows();
  receipt.rows_removed = output_.rows_removed();
  receipt.rows_this_run = output_.rows() + output_.rows_removed() - first_rows_;
  receipt.error_rows_this_run = output_.error_rows() + output_.error_rows_removed() - first_errors_;
  receipt.engine = engine_.receipt();
  if (end_ != JobEnd::kComplete) CountWritten(receipt);
  receipt.shared_tokens =
      std::max<std::int64_t>(0, receipt.engine.prompt_tokens - receipt.engine.prefilled_tokens);
  receipt.seconds = SecondsSince(start_);
  receipt.input_seconds = text_seconds_;
  receipt.output_seconds = output_seconds_;
  receipt.weight_bytes = model_->weight_bytes();
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) receipt.memory_bytes_peak = usage.ru_maxrss * 1024;
  receipt.answers_hash = output_.answers_hash();
  return receipt;
}

}  // namespace banyan
