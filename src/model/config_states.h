// What config.json says of layers that keep states, in the words of each family.
#pragma once

#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// Fills config.states, which stays empty where all layers have attention, and the size of LFM2's
// feed-forward block. REQUIRES: family.states; the sizes of `config` are read. Throws as
// ConfigFromHuggingFace.
void ReadStates(const JsonFields& fields, const Family& family, ModelConfig& config);

}  // namespace banyan
