// What config.json says of layers that keep states, in the words of each family.
#pragma once

#include "model/architecture_keys.h"
#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// Fills config.states, which stays empty where all layers have attention, and the size of LFM2's
// feed-forward block. REQUIRES: family.states; the sizes of `config` are read. Throws as
// ConfigFromHuggingFace.
void ReadStates(const JsonFields& fields, const Family& family, ModelConfig& config);
// The same for GGUF's files of LFM2, and kv_heads: a layer without heads for keys keeps a state.
// REQUIRES: layers, heads and hidden_size are read. Throws as ConfigFromGguf.
void ReadConvolutions(const ArchitectureKeys& keys, ModelConfig& config);

}  // namespace banyan
