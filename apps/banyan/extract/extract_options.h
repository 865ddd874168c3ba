// The command line of `extract`: its options with their help, and what becomes of those that are
// text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "banyan/extract.h"
#include "banyan/job.h"
#include "job/input_options.h"
#include "job/run_options.h"
#include "shell/table_options.h"

namespace banyan::app {

struct ExtractCommand {
  RunOptions run;
  ExtractOptions extract;
  JobOptions job;
  InputWords input;
  TableOptions table;    // of `extract`
  std::string report;    // file; empty: none
  bool propose = false;  // `extract schema`: no schema is needed, one is written
  ProposeOptions proposal;
  bool json = false;  // `extract schema`: all about the proposal, for programs
  bool show_prompt = false, layout = false, dry_run = false, quiet = false;

  // Adds all options, and the examples that end the help.
  void AddTo(CLI::App& command);
  // The same of `extract schema`.
  void AddProposalTo(CLI::App& command);
  // Of `extract schema`: the input and the schema's file. Throws.
  void CheckProposal() const;
  // Checks and converts what is text on the command line, reads the files that it names, and checks
  // the job. Throws.
  void Resolve();
};

}  // namespace banyan::app
