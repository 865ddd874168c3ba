// `banyan rag index`.
#pragma once

#include <CLI/CLI.hpp>
#include <utility>

#include "program.h"

namespace banyan::app {

// The subcommand of `rag`, and what it runs.
std::pair<CLI::App*, Command> AddRagIndex(CLI::App& rag);

}  // namespace banyan::app
