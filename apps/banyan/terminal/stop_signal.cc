#include "terminal/stop_signal.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace banyan::app {
namespace {

std::atomic<int> stop_signal{0};

extern "C" void NoteSignal(int signal) { stop_signal = signal; }

// Only calls that a signal handler may make.
extern "C" void NoteAndSay(int signal) {
  constexpr char kSaid[] =
      "\nbanyan: stopping; what is not finished is done again with --resume (a second time ends at "
      "once)\n";
  stop_signal = signal;
  std::signal(signal, SIG_DFL);
  if (::write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1) < 0) return;
}

}  // namespace

void StopOnSignals() {
  std::signal(SIGINT, NoteAndSay);
  std::signal(SIGTERM, NoteAndSay);
}

void NoteSignals() {
  std::signal(SIGINT, NoteSignal);
  std::signal(SIGTERM, NoteSignal);
}

int StopSignal() { return stop_signal; }
int TakeStopSignal() { return stop_signal.exchange(0); }

}  // namespace banyan::app
