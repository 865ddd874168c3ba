// The checks that a request must pass before the engine keeps anything of it.
#pragma once

#include <cstdint>

#include "banyan/request.h"
#include "load/model_parts.h"

namespace banyan {

struct RequestSize {
  std::int64_t answers = 0, tokens = 0;
};

struct RequestRules {
  // The questions of a context are one prompt, their answers written in turn
  // (Strategy::kSequential).
  bool sequential = false;
  int most_branches = 1;  // of one stream
};

// Throws as Engine::TrySubmit says.
RequestSize CheckRequest(const PromptSegment& request, const Model::Parts& model,
                         const RequestRules& rules);

}  // namespace banyan
