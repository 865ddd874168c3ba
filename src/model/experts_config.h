// What a model's files say of its experts.
#pragma once

#include "formats/gguf.h"
#include "model/config.h"
#include "model/families.h"
#include "model/json_fields.h"

namespace banyan {

// Fill config.experts. REQUIRES: config.layers is within its limits. Throw kFormat for values that
// cannot be, kUnsupported for experts in a family that has none; ValidateConfig checks the rest.
void ReadExperts(const JsonFields& fields, const Family& family, ModelConfig& config);
void ReadExperts(const GgufFile& gguf, const Family& family, ModelConfig& config);

}  // namespace banyan
