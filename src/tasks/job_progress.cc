// What the job runner says of itself: progress on the way, the receipt at the end. How a receipt
// looks is job_receipt.cc.
#include <sys/resource.h>

#include <algorithm>

#include "tasks/job.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void JobRunner::ReportProgress(bool last) {
  constexpr double kSecondsBetween = 0.2;
  if (!options_.progress || (!last && Since(last_report_) < kSecondsBetween)) return;
  last_report_ = Clock::now();
  const Receipt receipt = engine_.receipt();
  progress_.seconds = Since(start_);
  progress_.rows = output_.rows() - first_rows_;
  progress_.error_rows = output_.error_rows() - first_errors_;
  {
    const std::lock_guard lock(mutex_);
    progress_.skipped = skipped_;
  }
  progress_.prompt_tokens = receipt.prompt_tokens;
  progress_.prefilled_tokens = receipt.prefilled_tokens;
  progress_.generated_tokens = receipt.generated_tokens;
  progress_.last = last;
  if (last && end_ == JobEnd::kComplete) progress_.fraction = 1.0;
  options_.progress(progress_);
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
  receipt.records = progress_.records;
  receipt.skipped = skipped_;
  receipt.not_in_input =
      end_ == JobEnd::kComplete && options_.limit < 0 ? output_.done_before() - skipped_ : 0;
  receipt.rows = output_.rows();
  receipt.error_rows = output_.error_rows();
  receipt.rows_this_run = output_.rows() - first_rows_;
  receipt.error_rows_this_run = output_.error_rows() - first_errors_;
  receipt.engine = engine_.receipt();
  receipt.shared_tokens =
      std::max<std::int64_t>(0, receipt.engine.prompt_tokens - receipt.engine.prefilled_tokens);
  receipt.seconds = Since(start_);
  receipt.input_seconds = text_seconds_;
  receipt.output_seconds = output_seconds_;
  receipt.weight_bytes = model_->weight_bytes();
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) receipt.memory_bytes_peak = usage.ru_maxrss * 1024;
  receipt.answers_hash = output_.answers_hash();
  return receipt;
}

}  // namespace banyan
