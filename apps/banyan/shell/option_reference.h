// The reference of all options as a page of the documentation: docs/options.md.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace banyan::app {

// Markdown: the tables of options (program/option_table.h) with their names on the command line,
// over HTTP and in Python, then what commands of `root` have besides.
std::string OptionReference(const CLI::App& root);

}  // namespace banyan::app
