// banyan bench: a program of its own, banyan-bench (apps/bench), which stands beside this one.
#pragma once

#include <string>
#include <vector>

#include "commands.h"

namespace banyan::app {

// Replaces this process by banyan-bench with these arguments. Throws kNotFound when it is not
// there.
[[noreturn]] void CallBench(const std::vector<std::string>& arguments);

// Names of the benchmarks, for help and completions; tests/cli/test_bench.py compares them with
// what banyan-bench has.
const std::vector<std::string>& BenchNames();

}  // namespace banyan::app
