// Writing messages, standard streams and signals; progress bars of jobs, fetching and loading.
#include "terminal/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "program/message_text.h"

namespace banyan::app {

namespace {

// A line that is redrawn stands there: what is said next replaces it, and the line comes again.
std::atomic<bool> line_drawn{false};

void Write(FILE* stream, const std::string& text) {
  if (stream == stderr && line_drawn.exchange(false)) std::fputs("\r\x1b[K", stderr);
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

namespace {

std::string ShortDuration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

// 950, 12.3k, 4.5M
std::string ShortCount(double count) {
  if (count < 1000.0) return fmt::format("{:.0f}", count);
  if (count < 1e6) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.1f}M", count / 1e6);
}

std::string Bar(double fraction) {
  constexpr int kBarWidth = 20;
  const int filled = static_cast<int>(fraction * kBarWidth);
  return fmt::format("[{:#>{}}{:.>{}}] ", "", filled, "", kBarWidth - filled);
}

constexpr size_t kWholeLine = 1 << 20;

// Columns of the terminal, less one: a line that fills the last one moves the cursor on, and what
// is drawn next leaves it behind.
size_t LineWidth() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

// Back to the line's start; clears what an earlier, longer one left. REQUIRES: ASCII.
void RedrawLine(const std::string& text, bool last) {
  std::fprintf(stderr, "\r%s\x1b[K%s", text.substr(0, LineWidth()).c_str(), last ? "\n" : "");
  std::fflush(stderr);
  line_drawn = !last;
}

}  // namespace

std::string ProgressText(const JobProgress& progress, bool with_bar, size_t width) {
  const double seconds = std::max(progress.seconds, 1e-3);
  const auto saved = static_cast<double>(progress.saved_tokens);
  const double share = saved / std::max(1.0, static_cast<double>(progress.prompt_tokens));
  // Narrow terminals do without the last of these, then without the others, then without the bar.
  const std::string extras[] = {
      fmt::format("  {:.1f} questions/s", static_cast<double>(progress.answered) / seconds),
      fmt::format("  {:.0f} tokens/s", static_cast<double>(progress.generated_tokens) / seconds),
      fmt::format("  {} tokens saved by sharing ({:.0f} %)", ShortCount(saved), 100.0 * share)};
  std::string text;
  for (size_t left_out = 0; left_out <= std::size(extras) + 1; ++left_out) {
    const size_t shown = std::size(extras) - std::min(left_out, std::size(extras));
    text.clear();
    if (progress.fraction >= 0.0) {
      if (with_bar && left_out <= std::size(extras)) text += Bar(progress.fraction);
      text += fmt::format("{:3.0f} %  ", 100.0 * progress.fraction);
    }
    text += Plural(progress.rows, "row");
    if (progress.answered > progress.rows) text += fmt::format(", {} answered", progress.answered);
    for (size_t i = 0; i < shown; ++i) text += extras[i];
    if (progress.error_rows > 0) text += "  " + Plural(progress.error_rows, "error");
    if (!progress.last && progress.seconds_left >= 0.0) {
      text += fmt::format("  {} left", ShortDuration(progress.seconds_left));
    }
    if (text.size() <= width) return text;
  }
  return text.substr(0, width);
}

void ProgressLine::Show(const JobProgress& progress) {
  if (terminal_) {
    RedrawLine(ProgressText(progress, true, LineWidth()), progress.last);
    return;
  }
  if (!progress.last && progress.seconds < next_line_) return;
  next_line_ = std::max(progress.seconds * 1.5, progress.seconds + 5.0);
  std::fprintf(stderr, "%s\n", ProgressText(progress, false, kWholeLine).c_str());
}

void FetchLine::Show(std::int64_t done, std::int64_t total) {
  const bool last = done >= total;
  if (ended_) return;
  ended_ = last;
  if (done == 0) start_ = std::chrono::steady_clock::now();  // speed counts from the first byte on
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double fraction =
      static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, total));
  std::string text =
      fmt::format("{:3.0f} %  {:.1f} of {:.1f} MB", 100.0 * fraction,
                  static_cast<double>(done) * 1e-6, static_cast<double>(total) * 1e-6);
  if (seconds > 0.5) {
    const double speed = static_cast<double>(done) / seconds;
    text += fmt::format("  {:.1f} MB/s", speed * 1e-6);
    if (!last && speed > 0.0) {
      text += fmt::format("  {} left", ShortDuration(static_cast<double>(total - done) / speed));
    }
  }
  if (terminal_) {
    RedrawLine(Bar(fraction) + text, last);
    drawn_ = !last;
  } else if (last || seconds >= next_line_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    next_line_ = std::max(seconds * 1.5, seconds + 5.0);
  }
}

void FetchLine::Leave() {
  if (std::exchange(drawn_, false)) std::fprintf(stderr, "\n");
}

void LoadLine::Show(std::int64_t done, std::int64_t total) {
  if (!terminal_) return;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const bool last = done >= total;
  if (!(last ? shown_ : seconds >= next_)) return;
  const double fraction =
      static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, total));
  RedrawLine(Bar(fraction) + fmt::format("loading  {:3.0f} %  {:.1f} of {:.1f} GB  {:.2f} GB/s",
                                         100.0 * fraction, static_cast<double>(done) * 1e-9,
                                         static_cast<double>(total) * 1e-9,
                                         static_cast<double>(done) * 1e-9 / seconds),
             last);
  next_ = seconds + 0.1;
  shown_ = true;
}

}  // namespace banyan::app
