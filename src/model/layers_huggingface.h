// What config.json says of each layer: its window, and how positions turn its queries and keys.
#pragma once

#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// Fills config.attention and config.ropes. Both styles of rotary parameters are read:
// `rope_parameters` (Transformers 5), which may have one entry for each kind of layer, and
// `rope_theta` with `rope_scaling` (before). REQUIRES: config.layers is within its limits; head_dim
// and context_length are set. Throws as ConfigFromHuggingFace.
void ReadLayers(const JsonFields& fields, const Family& family, ModelConfig& config);

}  // namespace banyan
