// Answers on a terminal or as plain text, and the status while they are computed.
#include "ask/answer_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "banyan/error.h"
#include "program/message_text.h"

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
  Put(fmt::format("{}== {} ==\n", first_ ? "" : "\n", id), Style::kBold);
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

void AnswerPrinter::ClearStatus() {
  if (!status_shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  status_shown_ = false;
}

}  // namespace banyan::app
