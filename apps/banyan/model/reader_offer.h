// Which model answers where none is named: the shipped one, or a better reader that was offered
// once at the terminal.
#pragma once

#include <map>
#include <string>

#include "job/job_options.h"
#include "program/models.h"

namespace banyan::app {

// Sets the model and the adapter that do `task` where the command line names none
// (DefaultReaderFor). With `may_ask`, on a terminal, the better reader is offered first, once.
void ChooseDefaultReader(RunOptions& run, ReaderTask task, bool may_ask);

// The same for a server, which does all tasks: adapters are kept apart. Returns the adapter of each
// task ("ask", "extract", "rag") that has one.
std::map<std::string, std::string> ChooseDefaultReaders(RunOptions& run);

// FetchModel with messages and a progress bar on stderr.
std::string FetchForPerson(const std::string& model);

// Fetches it and makes it the default. False, with a message, when it cannot be fetched.
bool GetBetterReader();

// `banyan model better`: gets it; with `offer` asks first, once and only on a terminal; with
// `shipped` goes back to the shipped model.
int ModelBetter(bool offer, bool shipped);

}  // namespace banyan::app
