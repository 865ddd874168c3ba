// Answers on a terminal or as plain text, and the status while they are computed; then the line
// typed at the prompt: editing and history with libedit, else plain reading.
#include "ask/ask_terminal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "banyan/error.h"
#include "program/message_text.h"
#include "terminal/terminal.h"

#ifdef BANYAN_WITH_EDITLINE
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cwchar>
#endif

namespace banyan::app {

namespace {

constexpr const char* kIndent = "  ";

bool ColorsWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
         std::string(terminal) != "dumb";
}

void WriteOut(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Error(ErrorKind::kIo, "cannot write to standard output");
  }
}

}  // namespace

AnswerPrinter::AnswerPrinter(bool questions)
    : questions_(questions),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      colors_(terminal_ && ColorsWanted()),
      status_wanted_(::isatty(STDERR_FILENO) == 1) {}

void AnswerPrinter::Put(const std::string& text, Style style) {
  ClearStatus();
  std::string shown;
  for (const char c : terminal_ ? Visible(text) : text) {
    if (at_line_start_ && c != '\n') shown += style == Style::kBold ? "" : kIndent;
    shown += c;
    at_line_start_ = c == '\n';
  }
  constexpr const char* kBegin[] = {"", "\x1b[1m", "\x1b[2m", "\x1b[31m"};
  const bool styled = colors_ && style != Style::kPlain;
  WriteOut(styled ? kBegin[static_cast<int>(style)] + shown + "\x1b[0m" : shown);
}

void AnswerPrinter::EndBlock() {
  if (!at_line_start_) WriteOut("\n");
  at_line_start_ = true;
  waiting_since_ = std::chrono::steady_clock::now();
}

void AnswerPrinter::Document(const std::string& id) {
  std::string name = id;
  std::ranges::replace(name, '\n', ' ');  // of a file
  Put(fmt::format("{}== {} ==\n", first_ ? "" : "\n", name), Style::kBold);
  first_ = true;
}

void AnswerPrinter::Question(const std::string& question) {
  if (!questions_) return;
  Put((first_ ? "" : "\n") + question + "\n", Style::kBold);
  first_ = false;
}

void AnswerPrinter::Text(const std::string& piece) { Put(piece, Style::kPlain); }

// For a person at a terminal; files and pipes have it in rows.
void AnswerPrinter::Confidence(double probability) {
  if (terminal_) sure_ = fmt::format("  ({:.0f} % sure)", 100.0 * probability);
}

void AnswerPrinter::Answered(bool cut_short) {
  if (cut_short) Put(" …", Style::kDim);
  if (!sure_.empty()) Put(std::exchange(sure_, ""), Style::kDim);
  EndBlock();
}

void AnswerPrinter::NoAnswer() {
  Put("(the text does not say)" + std::exchange(sure_, ""), Style::kDim);
  EndBlock();
}

void AnswerPrinter::Failed(const std::string& reason) {
  if (!at_line_start_) WriteOut("\n");
  at_line_start_ = true;
  Put("error: " + reason, Style::kRed);
  EndBlock();
}

// Silence of more than a moment is explained.
void AnswerPrinter::Computing(std::int64_t done_tokens) {
  constexpr double kPatience = 0.7;
  const double waited =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - waiting_since_).count();
  if (!status_wanted_ || waited < kPatience || !at_line_start_) return;
  std::fprintf(stderr, "\rreading … %s, %.0f s\x1b[K", Plural(done_tokens, "token").c_str(),
               waited);
  std::fflush(stderr);
  status_shown_ = true;
}

void AnswerPrinter::Notice(const std::string& text) {
  ClearStatus();
  SayLine(text);
}

void AnswerPrinter::ClearStatus() {
  if (!status_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  status_shown_ = false;
}

namespace {

constexpr const char* kPrompt = "? ";

std::string Trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r\n") + 1 - first);
}

#ifdef BANYAN_WITH_EDITLINE
// $XDG_STATE_HOME/banyan/questions, where people expect it.
std::string HistoryFile() {
  namespace fs = std::filesystem;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code failed;
  fs::create_directories(folder / "banyan", failed);
  return failed ? std::string() : (folder / "banyan" / "questions").string();
}

// Ctrl-C while a line is typed. It may come while no key is awaited, also on another thread: a
// byte in a pipe, unlike an interrupted call, is there for the next who waits.
class TypedInterrupt {
 public:
  // False: there is none to wait for.
  static bool Open() { return ends_[0] >= 0 || ::pipe2(ends_, O_NONBLOCK | O_CLOEXEC) == 0; }
  static void Note(int) {
    const int before = errno;
    noted_ = true;
    [[maybe_unused]] const ssize_t written = ::write(ends_[1], "!", 1);  // a full pipe wakes, too
    errno = before;
  }
  static bool noted() { return noted_; }
  static void Forget() {
    char old[64];
    while (::read(ends_[0], old, sizeof(old)) > 0) continue;
    noted_ = false;
  }
  static int descriptor() { return ends_[0]; }

 private:
  inline static int ends_[2] = {-1, -1};
  inline static std::atomic<bool> noted_ = false;  // without a lock: a handler sets it
};

// The library's way to get a character: 1, 0 at the end of the input, -1 when Ctrl-C was typed.
int ReadCharacter(EditLine*, wchar_t* character) {
  std::mbstate_t state{};
  while (true) {
    pollfd wanted[] = {{STDIN_FILENO, POLLIN, 0}, {TypedInterrupt::descriptor(), POLLIN, 0}};
    const int ready = ::poll(wanted, 2, -1);
    if (TypedInterrupt::noted()) {
      errno = EINTR;
      return -1;
    }
    if (ready < 0 || wanted[0].revents == 0) continue;  // another signal
    char byte;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 0) return 0;
    if (count < 0 && errno != EINTR && errno != EAGAIN) return -1;
    if (count < 0) continue;
    const size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // more of its bytes are to come
    if (used != static_cast<size_t>(-1)) return 1;
    state = {};  // no character: left out
  }
}

// The library's state; one line is read at a time.
struct Editor {
  Editor() {
    std::setlocale(LC_CTYPE, "");  // for characters of more than one byte
    line = ::el_init("banyan", stdin, stdout, stderr);
    history = ::history_init();
    HistEvent event;
    constexpr int kMostKept = 1000;
    ::history(history, &event, H_SETSIZE, kMostKept);
    ::history(history, &event, H_SETUNIQUE, 1);
    ::el_set(
        line, EL_PROMPT, +[](EditLine*) -> const char* { return kPrompt; });
    ::el_set(line, EL_EDITOR, "emacs");
    ::el_set(line, EL_HIST, ::history, history);
    ::el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    if (TypedInterrupt::Open()) ::el_set(line, EL_GETCFN, &ReadCharacter);
  }
  ~Editor() {
    ::history_end(history);
    ::el_end(line);
  }
  EditLine* line;
  History* history;
};

Editor& TheEditor() {
  static Editor editor;
  return editor;
}
#endif

}  // namespace

#ifdef BANYAN_WITH_EDITLINE

QuestionLine::QuestionLine() : history_file_(HistoryFile()) {
  HistEvent event;
  if (!history_file_.empty()) {
    ::history(TheEditor().history, &event, H_LOAD, history_file_.c_str());
  }
}

QuestionLine::~QuestionLine() {
  if (history_file_.empty()) return;
  HistEvent event;
  const mode_t before = ::umask(077);  // questions are their asker's alone
  ::history(TheEditor().history, &event, H_SAVE, history_file_.c_str());
  ::umask(before);
}

std::vector<std::string> QuestionLine::Last(size_t count) const {
  std::vector<std::string> lines;
  HistEvent event;
  // The first is the newest.
  for (int found = ::history(TheEditor().history, &event, H_FIRST);
       found >= 0 && lines.size() < count; found = ::history(TheEditor().history, &event, H_NEXT)) {
    const std::string line = Trimmed(event.str);
    const bool known = std::ranges::find(lines, line) != lines.end();
    if (!line.empty() && line.front() != '/' && !known) lines.push_back(line);
  }
  std::ranges::reverse(lines);
  return lines;
}

std::optional<std::string> QuestionLine::Read() {
  Editor& editor = TheEditor();
  // While a line is typed Ctrl-C interrupts reading, and does nothing else.
  struct sigaction interrupt {
  }, before{};
  TypedInterrupt::Forget();
  interrupt.sa_handler = TypedInterrupt::Note;
  ::sigaction(SIGINT, &interrupt, &before);
  int count = 0;
  const char* line = ::el_gets(editor.line, &count);
  ::sigaction(SIGINT, &before, nullptr);
  if (TypedInterrupt::noted()) {
    std::fputs("\n", stdout);
    ::el_reset(editor.line);
    return std::string();
  }
  if (line == nullptr || count <= 0) return std::nullopt;
  const std::string typed = Trimmed(std::string(line, static_cast<size_t>(count)));
  HistEvent event;
  if (!typed.empty()) ::history(editor.history, &event, H_ENTER, typed.c_str());
  return typed;
}

#else

QuestionLine::QuestionLine() = default;
QuestionLine::~QuestionLine() = default;
std::vector<std::string> QuestionLine::Last(size_t) const { return {}; }

std::optional<std::string> QuestionLine::Read() {
  std::fputs(kPrompt, stdout);
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return Trimmed(line);
}

#endif

}  // namespace banyan::app
