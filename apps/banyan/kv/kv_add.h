// `banyan kv add`.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.h"

namespace banyan::app {

// Adds its options to the subcommand.
Command AddKvAdd(CLI::App& command);

}  // namespace banyan::app
