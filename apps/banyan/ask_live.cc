#include "ask_live.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "answer_printer.h"
#include "banyan/ask_session.h"
#include "banyan/error.h"
#include "question_line.h"
#include "screen.h"

namespace banyan::app {
namespace {

constexpr const char* kPromptHelp =
    "A question and Enter. Ctrl-C stops an answer; /quit or Ctrl-D leaves. Up and down: earlier "
    "questions.\n";

std::string Plural(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Summary(const AskTotals& totals) {
  std::string text =
      fmt::format("\n{} in {:.1f} s", Plural(totals.answers, "answer"), totals.seconds);
  if (totals.errors > 0) text += fmt::format(", {}", Plural(totals.errors, "error"));
  if (totals.prompt_tokens > totals.computed_tokens) {
    text += fmt::format("; {} of {} prompt tokens computed, the rest shared",
                        totals.computed_tokens, totals.prompt_tokens);
  }
  return text + "\n";
}

}  // namespace

int RunForReading(const AskCommand& command, std::shared_ptr<Model> model) {
  AskSession session(std::move(model), command.run.engine, command.ask);
  AnswerPrinter printer(/*questions=*/true);
  const AskTotals totals = session.Run(command.job, printer);
  if (!command.quiet) Say(Summary(totals));
  return totals.errors > 0 || totals.stopped ? 1 : 0;
}

int RunPrompt(const AskCommand& command, std::shared_ptr<Model> model,
              const std::function<int()>& take_signal) {
  AskSession session(std::move(model), command.run.engine, command.ask);
  int signal = 0;
  const std::function<bool()> stop = [&] {
    if (const int taken = take_signal()) signal = taken;
    return signal != 0;
  };
  JobOptions job = command.job;
  job.stop = stop;
  {
    AnswerPrinter reading(/*questions=*/false);
    const bool read = session.Read(job, reading);
    reading.ClearStatus();
    if (!read) return 128 + signal;
  }
  if (!command.quiet) {
    Say(fmt::format("{} read. {}", Plural(session.document_count(), "document"), kPromptHelp));
  }
  QuestionLine line;
  while (signal != SIGTERM) {
    const std::optional<std::string> typed = line.Read();
    if (!typed || *typed == "/quit" || *typed == "/exit") break;
    if (typed->empty()) continue;
    if (typed->starts_with('/')) {
      Say(kPromptHelp);
      continue;
    }
    signal = 0;
    take_signal();  // Ctrl-C at the prompt is no wish to stop the answer
    AnswerPrinter printer(/*questions=*/false);
    session.Ask(*typed, stop, printer);
  }
  return signal == SIGTERM ? 128 + SIGTERM : 0;
}

}  // namespace banyan::app
