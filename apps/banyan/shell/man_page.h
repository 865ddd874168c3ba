// Manual pages, made from the definitions of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace banyan::app {

// "banyan-bench-forest": the page's name, without its section (1).
std::string ManPageName(const CLI::App& command);

// The page of a command as roff (man macros).
std::string ManPage(const CLI::App& command, const std::string& version);

}  // namespace banyan::app
