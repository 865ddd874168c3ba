// banyan ask: a job with progress on stderr; or, at a terminal, answers to read and a prompt
// for questions. Options and help are in ask_options.cc, the work is in the library.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ask/ask_options.h"
#include "ask/ask_terminal.h"
#include "banyan/ask.h"
#include "banyan/error.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "job/job_session.h"
#include "program.h"
#include "program/ask_session.h"
#include "program/fresh_file.h"
#include "program/message_text.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kPromptHelp =
    "A question and Enter. Ctrl-C stops an answer; /save FILE writes all rows so far (.jsonl, "
    ".csv, .md), /save! FILE also over a file; /quit or Ctrl-D leaves. Up and down: earlier "
    "questions.\n";

// What follows "/save": " FILE", or "! FILE" for a file that may be there.
void Save(const AskSession& session, std::string words) {
  const bool overwrite = words.starts_with('!');
  if (overwrite) words.erase(0, 1);
  words.erase(0, std::min(words.find_first_not_of(' '), words.size()));
  try {
    if (words.empty()) throw Error(ErrorKind::kUsage, "expected a file: /save FILE");
    if (const std::string there = WhatIsThere(words); !overwrite && !there.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("{}: is there already ({}); /save! {} replaces it",
                                                 words, there, words));
    }
    const std::int64_t rows = session.Save(words, overwrite);
    Say(fmt::format("{} written to {}\n", Plural(rows, "row"), words));
  } catch (const Error& e) {
    SayLine(e.what());
  }
}

// The latest questions of the history.
void ShowEarlier(const std::vector<std::string>& questions) {
  if (questions.empty()) return;
  Say("Asked before:\n");
  for (const std::string& question : questions) Say("  " + question + "\n");
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
  constexpr size_t kShown = 5;
  if (!command.quiet) ShowEarlier(line.Last(kShown));
  while (signal != SIGTERM) {
    const std::optional<std::string> typed = line.Read();
    if (!typed || *typed == "/quit" || *typed == "/exit") break;
    if (typed->empty()) continue;
    if (*typed == "/save" || typed->starts_with("/save ") || typed->starts_with("/save!")) {
      Save(session, typed->substr(std::string_view("/save").size()));
      continue;
    }
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

// banyan ask: runs the job and says how it goes on stderr. Options and help are in ask_options.cc,
// the work is in the library.

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
  const JobSession session(command.job, command.quiet, command.input.verbose);
  if (command.mode == AskMode::kPrompt) {
    NoteSignals();
    command.job.notice = SayLine;  // before the questions
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
  receipt.adapter = command.run.load.adapter;
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
