// Which model answers where none is named: the shipped one, or a better reader that was offered
// once at the terminal.
#pragma once

#include <map>
#include <string>

#include "job/job_options.h"
#include "program/models.h"

namespace banyan::app {

// Sets the model and the adapter that do `task` (ReaderFor), from what the command line names. With
// `may_ask`, on a terminal, a better reader is offered first, once.
void ChooseReader(RunOptions& run, ReaderTask task, bool may_ask);

// The same for a server, which does all tasks: adapters are kept apart. Returns the adapter of each
// task ("ask", "extract", "rag") that has one.
std::map<std::string, std::string> ChooseReaders(RunOptions& run);

// FetchModel with messages and a progress bar on stderr.
std::string FetchForPerson(const std::string& model);

struct BetterOptions {
  bool offer = false;    // ask first, once and only on a terminal
  bool shipped = false;  // go back to the shipped model
  std::string size;      // empty: the person chooses, or else the smallest
};

// `banyan model better`: shows the readers that there are, fetches one and makes it the default.
int ModelBetter(const BetterOptions& options);

}  // namespace banyan::app
