// Writing messages, standard streams and signals.
#include "terminal/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "program/message_text.h"

namespace banyan::app {
namespace {

void Write(FILE* stream, const std::string& text) {
  const std::string shown = ::isatty(::fileno(stream)) == 1 ? Visible(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

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

void Say(const std::string& text) { Write(stderr, text); }
void SayLine(const std::string& text) { Say("banyan: " + text + "\n"); }
void Print(const std::string& text) {
  Write(stdout, text);
  std::fflush(stdout);  // before what stderr says after it
}

void ReserveStandardStreams() {
  // The wrong direction for the first two, so that using them fails.
  constexpr int kFlags[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one.
    int opened = ::open("/dev/null", kFlags[stream]);
    if (opened < 0) opened = ::open("/", O_PATH | O_DIRECTORY);
    if (opened != stream) std::_Exit(2);
  }
}

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
