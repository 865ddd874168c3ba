// The command line of `ask`: its options with their help, and what becomes of those that are text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/job.h"
#include "job/job_options.h"
#include "shell/table_options.h"

namespace banyan::app {

// Where answers go: rows for programs, text for a person, or a prompt that waits for questions.
enum class AskMode { kRows, kReading, kPrompt };

struct AskCommand {
  RunOptions run;
  KvStoreCommand kv;
  AskOptions ask;
  JobOptions job;
  std::vector<std::string> words;      // inputs, and questions about them
  std::vector<std::string> questions;  // -q
  InputOptions input;
  TableOptions table;  // of `ask`
  std::string questions_file;
  bool dry_run = false, quiet = false, show_prompt = false;
  AskMode mode = AskMode::kRows;

  // Adds all options, and the examples that end the help.
  void AddTo(CLI::App& command);
  // Checks and converts what is text on the command line, reads the files that it names, and checks
  // the job. Throws.
  void Resolve();

 private:
  void ResolveWords();
  void ResolveMode();
  bool reading_ = false;  // --output-format text
};

}  // namespace banyan::app
