// The command line as data, for completion scripts, manual pages and the reference of options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace banyan::app {

// What may stand in a place of the command line.
struct Completion {
  enum class Kind { kNothing, kWords, kModels, kFiles };
  Kind kind = Kind::kFiles;
  std::vector<std::string> words;  // of kWords
};

// A command that is typed, with everything that may follow it.
struct TypedCommand {
  const CLI::App* app = nullptr;
  std::string typed;     // " bench forest"; empty for the program itself
  Completion arguments;  // subcommands, or what its arguments take
  size_t depth = 0;      // words of `typed`
};

// Root, and all commands below it that help shows, parents first.
std::vector<TypedCommand> TypedCommands(const CLI::App& root);

// What follows an option; kNothing for numbers. REQUIRES: the option takes a value.
Completion ValueCompletion(const CLI::Option& option);

// Its options with at least one name that is typed.
std::vector<const CLI::Option*> NamedOptions(const CLI::App& command);

// The description's first part, in one line.
std::string ShortDescription(const std::string& description);

}  // namespace banyan::app
