#include "job_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>

#include "banyan/error.h"
#include "screen.h"

namespace banyan::app {
namespace {

// The signal that asked the job to stop (Ctrl-C, SIGTERM); 0: none.
std::atomic<int> stop_signal{0};

// The first time the job ends by itself, within a step; the second time the system ends it. Only
// calls that a signal handler may make.
extern "C" void OnJobInterrupt(int signal) {
  constexpr char kSaid[] =
      "\nbanyan: stopping; what is not finished is done again with --resume (a second time ends at "
      "once)\n";
  stop_signal = signal;
  std::signal(signal, SIG_DFL);
  if (::write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1) < 0) return;
}

std::string ResumeHint(const JobOptions& job) {
  if (job.output == "-") return "";
  return fmt::format("Go on with the same command and --resume (output {}).\n", job.output);
}

double CostOfThousand(const JobReceipt& receipt, double price_per_hour) {
  if (receipt.rows_this_run == 0) return 0.0;
  return receipt.seconds / 3600.0 * price_per_hour * 1000.0 /
         static_cast<double>(receipt.rows_this_run);
}

// The receipt's JSON with one more field.
std::string WithCost(std::string json, double cost) {
  json.pop_back();
  return json + fmt::format(",\"cost_per_1000_rows\":{:.6g}}}", cost);
}

}  // namespace

JobSession::JobSession(JobOptions& job, bool quiet)
    : job_(job), quiet_(quiet), line_(::isatty(STDERR_FILENO) == 1) {
  if (!quiet) job_.progress = [this](const JobProgress& progress) { line_.Show(progress); };
  job_.notice = [](const std::string& text) { SayLine(text); };
  job_.stop = [] { return stop_signal != 0; };
  std::signal(SIGINT, OnJobInterrupt);
  std::signal(SIGTERM, OnJobInterrupt);
}

int JobSession::Finish(const JobReceipt& receipt, double price_per_hour) const {
  const bool priced = price_per_hour > 0.0;
  const double cost = CostOfThousand(receipt, price_per_hour);
  if (!job_.receipt.empty()) {
    std::ofstream file(job_.receipt, std::ios::binary);
    file << (priced ? WithCost(receipt.ToJson(), cost) : receipt.ToJson()) << '\n';
    file.flush();
    if (!file) {
      throw Error(ErrorKind::kIo,
                  fmt::format("--receipt: {}: cannot write the file", job_.receipt));
    }
  }
  if (!quiet_) {
    Say(receipt.ToText());
    if (priced) {
      Say(fmt::format("  {:<10} {:.4g} for 1000 rows at {:.4g} an hour\n", "cost", cost,
                      price_per_hour));
    }
  }
  if (receipt.end == JobEnd::kStopped) {
    Say("banyan: stopped before the end of the input. " + ResumeHint(job_));
  }
  if (receipt.end == JobEnd::kTooManyErrors) {
    Say(fmt::format("banyan: stopped after more than {} error rows (--max-errors). {}",
                    job_.max_errors, ResumeHint(job_)));
  }
  if (receipt.end == JobEnd::kStopped && stop_signal != 0) return 128 + stop_signal;
  return receipt.end == JobEnd::kComplete && receipt.error_rows == 0 ? 0 : 1;
}

}  // namespace banyan::app
