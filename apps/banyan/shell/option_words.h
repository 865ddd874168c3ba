// What an option takes, in words: read from the definitions on the command line, so that messages,
// help, manual pages and completion cannot say different things.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace banyan::app {

enum class ValueKind { kNone, kWholeNumber, kNumber, kText, kChoice };

// What follows an option's name. An option that is added with type_name("one|two") has these
// choices, which are checked; "one|two|NAME" only offers them.
struct OptionValue {
  ValueKind kind = ValueKind::kText;
  std::string placeholder;           // "N", "X", "TEXT", "one|two"; empty for kNone
  std::vector<std::string> choices;  // of kChoice, and of kText that offers some
  std::string range;                 // "from 0 to 1024", "above 0"; empty: any
};
OptionValue ValueOf(const CLI::Option& option);

// "a whole number from 0 to 1024", "one of cpu, cuda", "a value".
std::string ExpectedValue(const CLI::Option& option);

// "-m, --model": every name that is typed before the value; the name of an argument without one.
std::string NamesOf(const CLI::Option& option);

// The description, and what it leaves unsaid in brackets: the range, the default, that it must be
// given.
std::string DescriptionOf(const CLI::Option& option);

// "banyan bench forest": what was typed up to this command.
std::string FullName(const CLI::App& command);

// Commands and options that help shows: those in a group that has a name and is not hidden.
std::vector<const CLI::App*> ShownCommands(const CLI::App& command);
std::vector<const CLI::Option*> ShownOptions(const CLI::App& command);

}  // namespace banyan::app
