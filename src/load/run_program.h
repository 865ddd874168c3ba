// Another program, run to its end.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace banyan {

struct ProgramRun {
  std::vector<std::string> arguments;    // the program first, found as a shell would
  std::vector<std::string> environment;  // NAME=VALUE, instead of what this process has under NAME
  std::function<void(const std::string&)> say;  // hears every line that it writes
  std::function<void()> tick;                   // called a few times a second; may be empty
};

// What a program said, and how it ended.
struct ProgramEnd {
  int code = 1;
  std::string last_lines;  // the last few, each after a line end; empty: it said nothing
};

// Throws kNotFound when it cannot be started.
ProgramEnd RunProgram(const ProgramRun& run);

}  // namespace banyan
