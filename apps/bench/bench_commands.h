// The benchmarks, each a subcommand of banyan-bench.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "program.h"

namespace banyan::app {

struct BenchCommand {
  CLI::App* app = nullptr;
  Command run;
};

BenchCommand AddBenchForest(CLI::App& bench);
BenchCommand AddBenchTree(CLI::App& bench);
std::vector<BenchCommand> AddNamedBenches(CLI::App& bench);  // squad2, narrativeqa, …
BenchCommand AddBenchGrid(CLI::App& bench);
BenchCommand AddBenchShared(CLI::App& bench);
BenchCommand AddBenchHydragen(CLI::App& bench);
BenchCommand AddBenchAttention(CLI::App& bench);
BenchCommand AddBenchArrival(CLI::App& bench);
BenchCommand AddBenchText(CLI::App& bench);
BenchCommand AddBenchConstrain(CLI::App& bench);
BenchCommand AddBenchConstrained(CLI::App& bench);
BenchCommand AddBenchExtract(CLI::App& bench);
BenchCommand AddBenchRag(CLI::App& bench);
BenchCommand AddBenchDraft(CLI::App& bench);
BenchCommand AddBenchStep(CLI::App& bench);
BenchCommand AddBenchOps(CLI::App& bench);
BenchCommand AddBenchKv(CLI::App& bench);
BenchCommand AddBenchLines(CLI::App& bench);

// All benchmarks, below the command `bench`.
Command AddBenches(CLI::App& app);

}  // namespace banyan::app
