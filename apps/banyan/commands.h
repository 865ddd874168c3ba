// The subcommands. Each adds itself to the command line and returns what to run when it was chosen;
// the result is the exit code: 0 ok, 1 some rows failed, 2 usage or input error.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace banyan::app {

using Command = std::function<int()>;

Command AddAsk(CLI::App& app);
Command AddEmbed(CLI::App& app);
Command AddKv(CLI::App& app);
Command AddEval(CLI::App& app);
Command AddExtract(CLI::App& app);
Command AddIds(CLI::App& app);
Command AddMerge(CLI::App& app);
Command AddModel(CLI::App& app);
Command AddRag(CLI::App& app);
Command AddBench(CLI::App& app);
Command AddHelp(CLI::App& app);
Command AddCompletion(CLI::App& app);
Command AddMan(CLI::App& app);

}  // namespace banyan::app
