// A job on the command line: signals, progress, receipt and exit code.
#include "job/job_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "program.h"
#include "program/fresh_file.h"
#include "program/message_text.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

// After the words that say why a job ended early.
std::string ResumeHint(const JobOptions& job) {
  if (job.output == "-") return "\n";
  return fmt::format("Go on with the same command and --resume (output {}).\n", job.output);
}

std::string FinishedText(const JobReceipt& receipt) {
  std::string text = fmt::format("{}: this job is finished: {} there, 0 to do", receipt.output,
                                 Plural(receipt.rows, "row"));
  if (receipt.error_rows > 0) {
    text += fmt::format("; {} among them (--resume --retry-errors asks again)",
                        Plural(receipt.error_rows, "error"));
  }
  return text + "; --overwrite does all of it again";
}

}  // namespace

std::map<std::string, std::string>& InputNames() {
  static std::map<std::string, std::string> names;
  return names;
}

int ShowEstimate(const JobEstimate& estimate, bool quiet) {
  if (!quiet) Say(estimate.ToText());
  Print(estimate.ToJson() + "\n");
  return estimate.error_rows > 0 ? 1 : 0;
}

JobSession::JobSession(JobOptions& job, bool quiet)
    : job_(job), quiet_(quiet), line_(::isatty(STDERR_FILENO) == 1) {
  if (!quiet) job_.progress = [this](const JobProgress& progress) { line_.Show(progress); };
  job_.input_names = InputNames();
  job_.problem_field = job_.input_names.empty() ? "" : kProblemField;
  job_.notice = [](const std::string& text) { SayLine(text); };
  job_.stop = [] { return StopSignal() != 0; };
  StopOnSignals();
}

int JobSession::Finish(const JobReceipt& receipt) const {
  if (!job_.receipt.empty() && receipt.MayWrite(job_.receipt)) {
    WriteFreshFile(job_.receipt, "--receipt", job_.overwrite || job_.resume,
                   receipt.ToJson() + "\n");
  }
  if (receipt.finished_before) {
    if (!quiet_) SayLine(FinishedText(receipt));
    return receipt.error_rows == 0 ? 0 : 1;
  }
  if (!quiet_) Say(receipt.ToText());
  if (receipt.end == JobEnd::kStopped) {
    Say("banyan: stopped before the end of the input. " + ResumeHint(job_));
  }
  if (receipt.end == JobEnd::kTooManyErrors) {
    Say(fmt::format("banyan: stopped after more than {} error rows (--max-errors). {}",
                    job_.max_errors, ResumeHint(job_)));
  }
  if (receipt.end == JobEnd::kUnreadable) {
    Say(fmt::format("banyan: stopped at {} (--strict). {}", receipt.stopped_at, ResumeHint(job_)));
  }
  const bool all_failed =
      receipt.rows_this_run > 0 && receipt.error_rows_this_run == receipt.rows_this_run;
  if (!quiet_ && !all_failed && receipt.error_rows > 0) {
    SayLine(fmt::format("{} among {}{}", Plural(receipt.error_rows, "error"),
                        Plural(receipt.rows, "row"),
                        receipt.first_error.empty() ? "" : "; the first: " + receipt.first_error));
  }
  if (all_failed) {
    SayLine("every row failed; the first: " + receipt.first_error);
  }
  const std::string journal = job_.output + ".journal";
  std::error_code none;
  if (receipt.end == JobEnd::kComplete && !quiet_ && job_.output != "-" &&
      std::filesystem::exists(journal, none)) {
    SayLine(fmt::format(
        "{} serves --resume (when the input grows) and --retry-errors; it may be removed",
        journal));
  }
  if (receipt.end == JobEnd::kStopped && StopSignal() != 0) return 128 + StopSignal();
  return receipt.end == JobEnd::kComplete && receipt.error_rows == 0 ? 0 : 1;
}

}  // namespace banyan::app
