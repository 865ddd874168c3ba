// What configurations of Gemma 4 say beyond those of other families: heads by kind of layer, layers
// that read the keys of earlier ones, inputs of layers, experts beside a block.
#pragma once

#include "model/architecture_keys.h"
#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// Values of a head in layers without a window. REQUIRES: layers and head_dim are set.
int FullHeadDim(const JsonFields& fields, const Family& family, const ModelConfig& config);

// Fills what Family::gemma4 stands for. REQUIRES: everything else is read. Throws as
// ConfigFromHuggingFace.
void ReadGemma4(const JsonFields& fields, const Family& family, ModelConfig& config);
// The same for GGUF, and the sizes that differ between layers: heads of keys, feed-forward blocks.
// REQUIRES: head_dim is that of layers without a window. Throws as ConfigFromGguf.
void ReadGemma4(const ArchitectureKeys& keys, ModelConfig& config);

// The last `reading` layers read the keys of the last layer of their kind, with a window or
// without, among those before them. Throws kFormat, naming `where`, when there is none.
void ShareLastKeys(int reading, const std::string& where, ModelConfig& config);

}  // namespace banyan
