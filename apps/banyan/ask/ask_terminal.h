// `ask` for a person: answers to read, on a terminal or as plain text, and the line in which a
// question is typed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "program/ask_session.h"

namespace banyan::app {

class AnswerPrinter : public AskListener {
 public:
  // `questions`: also print what was asked; at a prompt it stands there already.
  explicit AnswerPrinter(bool questions);

  void Document(const std::string& id) override;
  void Question(const std::string& question) override;
  void Text(const std::string& piece) override;
  void Confidence(double probability) override;
  void Answered(bool cut_short) override;
  void NoAnswer() override;
  void Failed(const std::string& reason) override;
  void Computing(std::int64_t done_tokens) override;
  void Notice(const std::string& text) override;
  void ClearStatus();  // what Computing left on the screen

 private:
  enum class Style { kPlain, kBold, kDim, kRed };
  void Put(const std::string& text, Style style);
  void EndBlock();

  bool questions_;
  bool terminal_;  // stdout: control characters are shown, not obeyed
  bool colors_;    // and it may be styled
  bool status_shown_ = false;
  bool status_wanted_;  // stderr is a terminal
  bool at_line_start_ = true;
  bool first_ = true;
  std::string sure_;  // of the answer that ends next: " (82 % sure)"
  std::chrono::steady_clock::time_point waiting_since_ = std::chrono::steady_clock::now();
};

// A line that a person types, with editing and history where the library for it was found.
class QuestionLine {
 public:
  QuestionLine();   // reads the history of earlier times
  ~QuestionLine();  // and keeps it
  QuestionLine(const QuestionLine&) = delete;
  QuestionLine& operator=(const QuestionLine&) = delete;

  // What was typed, without space at either end; nothing at the end of the input (Ctrl-D). Ctrl-C
  // gives up the line: it is empty then.
  std::optional<std::string> Read();
  // The last lines of the history, oldest first, without commands and doubles.
  std::vector<std::string> Last(size_t count) const;

 private:
  std::string history_file_;  // empty: none can be kept
};

}  // namespace banyan::app
