// A step that the backend has and whose tokens the host has not taken yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/strong_int.h"
#include "kernels/kernels.h"

namespace banyan {

struct LaunchedStep {
  // For another step, in the same memory.
  void Clear() {
    logits = {};
    readers.clear();
    rows.clear();
    branches.clear();
    decode_only = take_at_once = false;
  }

  Tensor logits;  // [logit rows, vocab]; valid until the next step is launched
  std::unique_ptr<PendingChoices> choices;
  // [choices] whose next token each is; none: the stream ended with an earlier token, and what this
  // step computed for it is of no use.
  std::vector<StreamId> readers;
  std::vector<std::int32_t> rows;  // [choices] of the logits; the prior's of a panel
  std::vector<int> branches;       // [choices] rows that each was made of
  bool decode_only = false;        // no rows of prompts
  // The tokens must be taken before another step is launched: somebody wants the logits, or asks
  // for a next token in a way that depends on this one.
  bool take_at_once = false;
};

}  // namespace banyan
