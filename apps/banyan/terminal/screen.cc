#include "terminal/screen.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "program/visible.h"

namespace banyan::app {
namespace {

void Write(FILE* stream, const std::string& text) {
  const std::string shown = ::isatty(::fileno(stream)) == 1 ? Visible(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

}  // namespace

void Say(const std::string& text) { Write(stderr, text); }
void SayLine(const std::string& text) { Say("banyan: " + text + "\n"); }
void Print(const std::string& text) {
  Write(stdout, text);
  std::fflush(stdout);  // before what stderr says after it
}

void ReserveStandardStreams() {
  // The wrong way round for the first two: whoever uses them hears of it.
  constexpr int kFlags[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one.
    int opened = ::open("/dev/null", kFlags[stream]);
    if (opened < 0) opened = ::open("/", O_PATH | O_DIRECTORY);
    if (opened != stream) std::_Exit(2);
  }
}

}  // namespace banyan::app
