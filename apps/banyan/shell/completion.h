// Shell completion, made from the definitions of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace banyan::app {

// Scripts that a shell reads: they complete commands, options, the values of options that have
// choices, names of models, and files elsewhere.
std::string BashCompletion(const CLI::App& root);
std::string ZshCompletion(const CLI::App& root);
std::string FishCompletion(const CLI::App& root);

}  // namespace banyan::app
