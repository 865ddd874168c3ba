// banyan eval extract.
#pragma once

#include "eval_rag.h"

namespace banyan::app {

EvalPart AddEvalExtract(CLI::App& eval);

}  // namespace banyan::app
