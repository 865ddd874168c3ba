// The whole program as a function: what `banyan` runs, and the command of the Python package.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "commands.h"

namespace banyan::app {

// Returns the exit code. Catches everything.
int RunProgram(int argc, char** argv);

// The same for a program with these commands alone; each is added by one function.
int RunCommands(int argc, char** argv, const std::vector<Command (*)(CLI::App&)>& adders);

// Files that stand for something else (a Parquet file that was written out as JSONL): the name that
// rows and messages have instead. To be filled before RunProgram.
std::map<std::string, std::string>& InputNames();

}  // namespace banyan::app
