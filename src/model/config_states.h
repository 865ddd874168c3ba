// What config.json and GGUF say of layers that keep states, in the words of each family.
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
// The same for GGUF's files, and kv_heads, which they may give for each layer. REQUIRES: layers,
// heads and hidden_size are read. Throws as ConfigFromGguf.
void ReadStates(const ArchitectureKeys& keys, const Family& family, ModelConfig& config);
// Blocks of the file after the model's own layers, which guess further tokens; not read.
int GuessingBlocks(const ArchitectureKeys& keys, const Family& family);

}  // namespace banyan
