// Messages and progress for a person, and Ctrl-C. On a terminal control characters from files and
// names are made visible.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/job.h"

namespace banyan::app {

void Say(const std::string& text);      // to stderr, as it is given
void SayLine(const std::string& text);  // "banyan: TEXT" and a line end
void Print(const std::string& text);    // to stdout

// Opens stdin, stdout and stderr where they are closed, so that no file of the job gets their
// descriptors and messages are not written into it. Reading the stand-in for stdin or writing to
// that for stdout fails; what is written to that for stderr is dropped.
void ReserveStandardStreams();

// Ctrl-C and SIGTERM: from now on the first is noted, with a message on stderr; the second ends the
// program at once.
void StopOnSignals();
// From now on signals are only noted: for a prompt.
void NoteSignals();

// The signal that came; 0: none.
int StopSignal();
// The same, and forgets it.
int TakeStopSignal();

// Progress of a job: one line that is redrawn on a terminal and never wider than it; a line now and
// then otherwise.
class ProgressLine {
 public:
  explicit ProgressLine(bool terminal) : terminal_(terminal) {}
  void Show(const JobProgress& progress);

 private:
  bool terminal_;
  double next_line_ = 1.0;  // seconds; plain lines come ever more rarely
};

// Of fetching a model's package.
class FetchLine {
 public:
  explicit FetchLine(bool terminal) : terminal_(terminal) {}
  ~FetchLine() { Leave(); }
  // Bytes, as FetchProgress says them; the last call has done == total.
  void Show(std::int64_t done, std::int64_t total);
  // What is said next begins a line of its own.
  void Leave();

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_line_ = 5.0;  // seconds; where there is no terminal
  bool ended_ = false;
  bool drawn_ = false;  // a bar stands on the line
};

// Of loading a model, on a terminal alone: nothing for the first two seconds, so that small models
// load in silence.
class LoadLine {
 public:
  explicit LoadLine(bool terminal) : terminal_(terminal) {}
  // Bytes, as LoadOptions::progress says them; the last call has done == total.
  void Show(std::int64_t done, std::int64_t total);

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_ = 2.0;  // seconds
  bool shown_ = false;
};

// "[#####.....]  50 %  1234 rows  56.7 questions/s …", of at most `width` columns: what matters
// least is left out.
std::string ProgressText(const JobProgress& progress, bool with_bar, size_t width);

}  // namespace banyan::app
