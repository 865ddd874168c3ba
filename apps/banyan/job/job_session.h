// A job as a command runs it: interrupted by signals, with progress and a receipt on stderr.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "banyan/retrieval.h"
#include "terminal/terminal.h"

namespace banyan::app {

// What a dry run found: for people on stderr unless `quiet`, as JSON on stdout. Returns the exit
// code.
int ShowEstimate(const JobEstimate& estimate, bool quiet);

// To stderr, when the index is older than its documents; it is used all the same.
void SayChanges(const DocumentIndex& index);

class JobSession {
 public:
  // Sets what the job says and hears; `job` must outlive the session. `verbose`: the whole receipt
  // at the end, not a line of it.
  JobSession(JobOptions& job, bool quiet, bool verbose);
  ~JobSession();
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  // Writes the receipt where it is wanted and says how it went. Returns the exit code.
  int Finish(const JobReceipt& receipt) const;

 private:
  JobOptions& job_;
  const bool quiet_, verbose_;
  ProgressLine line_;
  std::vector<std::string> left_out_;  // of folders, as notices say it
};

}  // namespace banyan::app
