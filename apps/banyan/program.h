// The whole program as a function, which `banyan` and the Python package call, and its subcommands.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace banyan::app {

// The subcommands. Each adds itself to the command line and returns what to run when it was chosen;
// the result is the exit code: 0 ok, 1 some rows failed, 2 usage or input error.
using Command = std::function<int()>;

Command AddAsk(CLI::App& app);
Command AddEmbed(CLI::App& app);
Command AddKv(CLI::App& app);
Command AddEval(CLI::App& app);
Command AddExtract(CLI::App& app);
Command AddIds(CLI::App& app);
Command AddMerge(CLI::App& app);
Command AddMap(CLI::App& app);
Command AddFilter(CLI::App& app);
Command AddRank(CLI::App& app);
Command AddGroup(CLI::App& app);
Command AddJoin(CLI::App& app);
Command AddModel(CLI::App& app);
Command AddRag(CLI::App& app);
Command AddServe(CLI::App& app);
Command AddBench(CLI::App& app);
Command AddHelp(CLI::App& app);
Command AddCompletion(CLI::App& app);
Command AddMan(CLI::App& app);

// Returns the exit code. Every exception that a command lets through becomes a message here.
int RunProgram(int argc, char** argv);

// The same for a program with these commands alone; each is added by one function.
int RunCommands(int argc, char** argv, const std::vector<Command (*)(CLI::App&)>& adders);

// Files that stand for something else (a Parquet file that was written out as JSONL): the name that
// rows and messages have instead. To be filled before RunProgram.
std::map<std::string, std::string>& InputNames();

// Replaces this process by the benchmark program, banyan-bench (apps/bench), with these arguments.
// Throws kNotFound when it is neither beside this program nor on the PATH.
[[noreturn]] void CallBench(const std::vector<std::string>& arguments);

// Names of the benchmarks, for help and completions; tests/cli/test_bench.py compares them with
// what banyan-bench has.
const std::vector<std::string>& BenchNames();

// The text of --version: "banyan VERSION", then commit, build and devices on lines of their own.
std::string VersionText();

}  // namespace banyan::app
