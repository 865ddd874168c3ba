// The subcommands of `banyan eval`. Each adds itself to it and returns what to run when it was
// chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "program/score.h"

namespace banyan::app {

// Writes the reliability diagram of these confidences, titled `name`, to --reliability's file.
// Throws kIo.
void WriteReliabilitySvg(const std::string& file, const std::vector<ConfidencePoint>& confidences,
                         const std::string& name, bool overwrite);

struct EvalPart {
  CLI::App* app = nullptr;
  Command run;
};

EvalPart AddEvalAsk(CLI::App& eval);
EvalPart AddEvalExtract(CLI::App& eval);
EvalPart AddEvalRag(CLI::App& eval);

}  // namespace banyan::app
