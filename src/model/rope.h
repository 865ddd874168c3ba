// Rotary position embedding as a table: the angle of pair i at position p is p *
// inverse_frequency[i] and both cosine and sine are multiplied by `scale` (YaRN and LongRoPE call
// it attention factor).
#pragma once

#include <vector>

#include "model/config.h"

namespace banyan {

struct RopeTable {
  std::vector<float> inverse_frequency;  // [rotary_dim/2]
  float scale = 1.0f;
};

// `context_length` is the configured context of the job: LongRoPE takes its factors from it (long
// ones when it exceeds original_context), so that KV is a function of its path alone.
RopeTable MakeRopeTable(const RopeConfig& rope, int context_length);

// YaRN as a user's override for `factor` times longer context; `original_context` is what the model
// was trained for, in tokens. Replaces any scaling that `rope` has; keeps theta and rotary_dim.
// Throws kUsage when factor < 1 or original_context < 1.
RopeConfig ExtendWithYarn(const RopeConfig& rope, double factor, int original_context);

}  // namespace banyan
