// Messages for a command line that is wrong: which option, what it takes, what it was given, the
// nearest known name, and where to read on.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::app {

// After root.parse() threw `error`.
std::string ParseMessage(const CLI::App& root, const CLI::ParseError& error);

// After root.parse() did not throw: what its checks leave to others. Throws kUsage for a value that
// is none of an option's choices, and for a number that is not finite.
void CheckValues(const CLI::App& root);

// After root.parse() did not throw: a line on stderr for each option that another command shows now
// and that the chosen one will no longer take.
void WarnOfMovedOptions(const CLI::App& root);

// "no command 'aks'; did you mean 'ask'?", for a word where a subcommand of `command` was expected.
std::string NoSuchCommand(const CLI::App& command, const std::string& word);

// "Try 'banyan ask --help'."
std::string WhereToReadOn(const CLI::App& command);

// The command that was chosen: the last of root's chain of subcommands that were parsed.
const CLI::App& ChosenCommand(const CLI::App& root);

}  // namespace banyan::app
