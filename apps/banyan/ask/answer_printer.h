// Answers to read: on a terminal, or as plain text.
#pragma once

#include <chrono>
#include <string>

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

}  // namespace banyan::app
