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

void SayChanges(const DocumentIndex& index) {
  const std::string text = index.Changes().Text();
  if (!text.empty()) SayLine(text);
}

JobSession::JobSession(JobOptions& job, bool quiet, bool verbose)
    : job_(job), quiet_(quiet), verbose_(verbose), line_(::isatty(STDERR_FILENO) == 1) {
  // Rows that come to the same terminal show how far it is.
  const bool rows_are_seen = job.output == "-" && ::isatty(STDOUT_FILENO) == 1;
  if (!quiet && !rows_are_seen)
    job_.progress = [this](const JobProgress& progress) { line_.Show(progress); };
  job_.input_names = InputNames();
  job_.problem_field = job_.input_names.empty() ? "" : kProblemField;
  // What was left out of folders is told at the end, beside what could not be read.
  job_.notice = [this](const std::string& text) {
    if (text.find(": left out") == std::string::npos) return SayLine(text);
    left_out_.push_back(text);
  };
  job_.stop = [] { return StopSignal() != 0; };
  StopOnSignals();
}

JobSession::~JobSession() {
  for (const std::string& text : left_out_) SayLine(text);
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
  const bool all_failed =
      receipt.rows_this_run > 0 && receipt.error_rows_this_run == receipt.rows_this_run;
  if (!quiet_ && verbose_) Say(receipt.ToText());
  if (!quiet_ && !verbose_ && !all_failed) Say(receipt.ToLine());
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
  if (!quiet_ && receipt.unread_inputs > 0) {
    SayLine(fmt::format("{} could not be read:", Plural(receipt.unread_inputs, "input")));
    for (const std::string& why : receipt.unread) Say("  " + why + "\n");
    const auto more = receipt.unread_inputs - static_cast<std::int64_t>(receipt.unread.size());
    if (more > 0) Say(fmt::format("  and {} more: see the error rows\n", more));
  }
  if (!quiet_ && !all_failed && receipt.error_rows > receipt.unread_inputs) {
    const bool said = receipt.unread_inputs > 0 || receipt.first_error.empty();
    SayLine(fmt::format("{} among {}{}", Plural(receipt.error_rows, "error"),
                        Plural(receipt.rows, "row"),
                        said ? "" : "; the first: " + receipt.first_error));
  }
  if (all_failed && (quiet_ || receipt.unread_inputs == 0)) {
    SayLine("every row failed; the first: " + receipt.first_error);
  }
  const std::string journal = job_.output + ".journal";
  std::error_code none;
  if (receipt.end == JobEnd::kComplete && !quiet_ && verbose_ && job_.output != "-" &&
      std::filesystem::exists(journal, none)) {
    SayLine(fmt::format(
        "{} serves --resume (when the input grows) and --retry-errors; it may be removed",
        journal));
  }
  if (receipt.end == JobEnd::kStopped && StopSignal() != 0) return 128 + StopSignal();
  return receipt.end == JobEnd::kComplete && receipt.error_rows == 0 ? 0 : 1;
}

}  // namespace banyan::app
