// The subcommands of `banyan eval`. Each adds itself to it and returns what to run when it was
// chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.h"

namespace banyan::app {

struct EvalPart {
  CLI::App* app = nullptr;
  Command run;
};

EvalPart AddEvalExtract(CLI::App& eval);
EvalPart AddEvalRag(CLI::App& eval);

}  // namespace banyan::app
