// banyan ask: runs the job and says how it goes on stderr. Options and help are in ask_options.cc,
// the work is in the library.
#include <chrono>
#include <memory>
#include <string>

#include "ask/ask_live.h"
#include "ask/ask_options.h"
#include "banyan/ask.h"
#include "banyan/job.h"
#include "commands.h"
#include "job/job_session.h"
#include "terminal/screen.h"
#include "terminal/stop_signal.h"

namespace banyan::app {
namespace {

int RunAskCommand(AskCommand& command) {
  command.Resolve();
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.dry_run) {
    return ShowEstimate(EstimateAsk(model, command.run.engine, command.ask, command.job),
                        command.quiet);
  }
  if (command.show_prompt) {
    Print(ShowPrompts(model, command.ask, command.job));
    return 0;
  }
  const JobSession session(command.job, command.quiet);
  if (command.mode == AskMode::kPrompt) {
    NoteSignals();
    return RunPrompt(command, model, TakeStopSignal);
  }
  if (command.mode == AskMode::kReading) {
    const int code = RunForReading(command, model);
    return StopSignal() != 0 ? 128 + StopSignal() : code;
  }
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunAsk(model, command.run.engine, command.ask, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  return session.Finish(receipt);
}

}  // namespace

Command AddAsk(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ask", "Ask many questions about many documents");
  auto options = std::make_shared<AskCommand>();
  options->AddTo(*command);
  return [options] { return RunAskCommand(*options); };
}

}  // namespace banyan::app
