// Rotary position embedding: its parameters as config.json gives them, and the table that kernels
// take (RopeTable).
#pragma once

#include "kernels/kernels.h"
#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// `context_length` is the configured context of the job: LongRoPE takes its factors from it (long
// ones when it exceeds original_context), so that KV is a function of its path alone.
RopeTable MakeRopeTable(const RopeConfig& rope, int context_length);

// YaRN as a user's override for `factor` times longer context; `original_context` is what the model
// was trained for, in tokens. Replaces any scaling that `rope` has; keeps theta and rotary_dim.
// Throws kUsage when factor < 1 or original_context < 1.
RopeConfig ExtendWithYarn(const RopeConfig& rope, double factor, int original_context);

// Kinds of layers in config.json (`layer_types`, `rope_parameters`).
inline constexpr const char* kFullAttention = "full_attention";
inline constexpr const char* kSlidingAttention = "sliding_attention";

// RoPE of layers that see all keys, and of layers with a window.
struct RopesByKind {
  RopeConfig full, sliding;
  bool differ = false;
};

// Reads both styles: `rope_parameters` (Transformers 5), which may have one entry for each kind of
// layer, and `rope_theta` with `rope_scaling` (before). REQUIRES: head_dim and context_length of
// `config` are set; `full_head_dim` is that of layers without a window. Throws as
// ConfigFromHuggingFace.
RopesByKind ReadRopes(const JsonFields& fields, const Family& family, const ModelConfig& config,
                      int full_head_dim);

}  // namespace banyan
