// banyan eval rag.
#pragma once

#include <CLI/CLI.hpp>

#include "commands.h"

namespace banyan::app {

// Adds `rag` to `eval`; what it returns runs it.
struct EvalPart {
  CLI::App* app = nullptr;
  Command run;
};
EvalPart AddEvalRag(CLI::App& eval);

}  // namespace banyan::app
