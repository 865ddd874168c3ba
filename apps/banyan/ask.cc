// banyan ask: runs the job and says how it goes on stderr. Options and help are in ask_options.cc,
// the work is in the library.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "ask_live.h"
#include "ask_options.h"
#include "banyan/ask.h"
#include "banyan/error.h"
#include "banyan/job.h"
#include "commands.h"
#include "progress_line.h"
#include "screen.h"

namespace banyan::app {
namespace {

// The signal that asked the job to stop (Ctrl-C, SIGTERM); 0: none.
std::atomic<int> stop_signal{0};

// The first time the job ends by itself, within a step; the second time the system ends it. Only
// calls that a signal handler may make.
extern "C" void OnInterrupt(int signal) {
  constexpr char kSaid[] =
      "\nbanyan: stopping; what is not finished is asked again with --resume (a second time ends "
      "at once)\n";
  stop_signal = signal;
  std::signal(signal, SIG_DFL);
  if (::write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1) < 0) return;
}

// At a prompt: whoever waits for an answer looks at it.
extern "C" void NoteSignal(int signal) { stop_signal = signal; }

std::string ResumeHint(const AskCommand& command) {
  if (command.job.output == "-") return "";
  return fmt::format("Go on with the same command and --resume (output {}).\n", command.job.output);
}

int Finish(const AskCommand& command, const JobReceipt& receipt) {
  if (!command.job.receipt.empty()) {
    std::ofstream file(command.job.receipt, std::ios::binary);
    file << receipt.ToJson() << '\n';
    file.flush();
    if (!file) {
      throw Error(ErrorKind::kIo,
                  fmt::format("--receipt: {}: cannot write the file", command.job.receipt));
    }
  }
  if (!command.quiet) Say(receipt.ToText());
  if (receipt.end == JobEnd::kStopped) {
    Say("banyan: stopped before the end of the input. " + ResumeHint(command));
  }
  if (receipt.end == JobEnd::kTooManyErrors) {
    Say(fmt::format("banyan: stopped after more than {} error rows (--max-errors). {}",
                    command.job.max_errors, ResumeHint(command)));
  }
  if (receipt.rows_this_run > 0 && receipt.error_rows_this_run == receipt.rows_this_run) {
    SayLine("every row failed; the first: " + receipt.first_error);
  }
  const std::string journal = command.job.output + ".journal";
  std::error_code none;
  if (receipt.end == JobEnd::kComplete && !command.quiet && command.job.output != "-" &&
      std::filesystem::exists(journal, none)) {
    SayLine(fmt::format(
        "{} serves --resume (when the input grows) and --retry-errors; it may be removed",
        journal));
  }
  if (receipt.end == JobEnd::kStopped && stop_signal != 0) return 128 + stop_signal;
  const bool all_well = receipt.end == JobEnd::kComplete && receipt.error_rows == 0;
  return all_well ? 0 : 1;
}

int RunAskCommand(AskCommand& command) {
  command.Resolve();
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.dry_run) {
    const JobEstimate estimate = EstimateAsk(model, command.run.engine, command.ask, command.job);
    Say(estimate.ToText());
    std::printf("%s\n", estimate.ToJson().c_str());
    return estimate.error_rows > 0 ? 1 : 0;
  }
  if (command.show_prompt) {
    Print(ShowPrompts(model, command.ask, command.job));
    return 0;
  }
  command.job.notice = [](const std::string& text) { SayLine(text); };
  command.job.stop = [] { return stop_signal != 0; };
  const bool prompt = command.mode == AskMode::kPrompt;
  std::signal(SIGINT, prompt ? NoteSignal : OnInterrupt);
  std::signal(SIGTERM, prompt ? NoteSignal : OnInterrupt);
  if (prompt) return RunPrompt(command, model, [] { return stop_signal.exchange(0); });
  if (command.mode == AskMode::kReading) {
    const int code = RunForReading(command, model);
    return stop_signal != 0 ? 128 + stop_signal : code;
  }
  ProgressLine line(::isatty(STDERR_FILENO) == 1);
  if (!command.quiet) {
    command.job.progress = [&](const JobProgress& progress) { line.Show(progress); };
  }
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunAsk(model, command.run.engine, command.ask, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  return Finish(command, receipt);
}

}  // namespace

Command AddAsk(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ask", "Ask many questions about many documents");
  auto options = std::make_shared<AskCommand>();
  options->AddTo(*command);
  return [options] { return RunAskCommand(*options); };
}

}  // namespace banyan::app
