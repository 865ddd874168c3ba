// A line that a person types, with editing and history where the library for it was found.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace banyan::app {

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
