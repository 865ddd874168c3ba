// The command line of `ask`: its options with their help, and what becomes of those that are text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/job.h"
#include "kv_options.h"
#include "run_options.h"

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
  std::vector<std::string> fields;     // "context=body"
  std::string questions_file, few_shot_file, schema_file, template_text, instruction_text;
  std::string chat = "auto", thinking = "off", choices = "score", choice_score = "sum";
  std::string too_long = "fail", shard = "1/1";
  std::string delimiter;
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
