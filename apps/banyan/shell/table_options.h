// Options of a table (program/options.h) on the command line of a command.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "program/options.h"

namespace banyan::app {

// The value that a text on the command line means; nothing: it is no value of the option.
std::optional<OptionData> DataOf(const OptionFacts& facts, const std::string& text);

// An option for several values of a table's option, separated by commas. Each is checked as one
// alone; `also` is a text that is taken too. Returns it for its help and its group.
CLI::Option* AddValuesOf(CLI::App& command, const OptionFacts& facts,
                         std::vector<std::string>& values, const std::string& also = "");

class TableOptions {
 public:
  // Adds those whose group in the table is one of `from` (empty: all), to the help's group `group`
  // (empty: the table's). Values go to their fields while the command line is read.
  // REQUIRES: the object that `options` are bound to outlives the command.
  void AddTo(CLI::App& command, const BoundOptions& options,
             const std::vector<std::string>& from = {}, const std::string& group = "");

  // Reads the files that were named; `read` hears each, as (option, path). Throws kNotFound,
  // kUsage.
  void ReadFiles(const std::function<void(const std::string&, const std::string&)>& read);
  // The text given for an option whose value may be in a file; empty: none.
  std::string Given(const std::string& name) const;

 private:
  struct Text {
    BoundOption option;
    std::optional<std::string> words;  // as given
  };
  void Add(CLI::App& command, const BoundOption& option, const std::string& group);

  std::vector<Text> texts_;  // whose value may be in a file
};

// The text of a file that an option names. Throws kNotFound naming the option.
std::string ReadOptionFile(const std::string& path, const char* option);

}  // namespace banyan::app
