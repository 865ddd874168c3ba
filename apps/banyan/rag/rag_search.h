// `banyan rag search`.
#pragma once

#include <CLI/CLI.hpp>
#include <utility>

#include "commands.h"

namespace banyan::app {

// The subcommand of `rag`, and what it runs.
std::pair<CLI::App*, Command> AddRagSearch(CLI::App& rag);

}  // namespace banyan::app
