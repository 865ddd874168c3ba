// Rotary position embedding as the table that kernels take (kernels/rope_table.h).
#pragma once

#include "kernels/rope_table.h"
#include "model/config.h"

namespace banyan {

// `context_length` is the configured context of the job: LongRoPE takes its factors from it (long
// ones when it exceeds original_context), so that KV is a function of its path alone.
RopeTable MakeRopeTable(const RopeConfig& rope, int context_length);

// YaRN as a user's override for `factor` times longer context; `original_context` is what the model
// was trained for, in tokens. Replaces any scaling that `rope` has; keeps theta and rotary_dim.
// Throws kUsage when factor < 1 or original_context < 1.
RopeConfig ExtendWithYarn(const RopeConfig& rope, double factor, int original_context);

}  // namespace banyan
