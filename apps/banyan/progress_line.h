// A job's progress for a person: one line that is redrawn on a terminal, a line now and then
// otherwise.
#pragma once

#include <string>

#include "banyan/job.h"

namespace banyan::app {

class ProgressLine {
 public:
  explicit ProgressLine(bool terminal) : terminal_(terminal) {}
  void Show(const JobProgress& progress);

 private:
  bool terminal_;
  double next_line_ = 1.0;  // seconds; plain lines come ever more rarely
};

// "[#####.....]  50 %  1234 rows  56.7 questions/s …", at most one terminal line.
std::string ProgressText(const JobProgress& progress, bool with_bar);

}  // namespace banyan::app
