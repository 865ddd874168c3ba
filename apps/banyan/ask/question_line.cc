#include "ask/question_line.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#ifdef BANYAN_WITH_EDITLINE
#include <histedit.h>

#include <clocale>
#include <csignal>
#endif

namespace banyan::app {
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
  static volatile std::sig_atomic_t interrupted = 0;
  interrupted = 0;
  interrupt.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &interrupt, &before);
  int count = 0;
  const char* line = ::el_gets(editor.line, &count);
  ::sigaction(SIGINT, &before, nullptr);
  if (interrupted != 0) {
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
