// How much memory a model takes on each device, from its files' headers alone.
#pragma once

#include <vector>

#include "banyan/model.h"
#include "formats/tensor_store.h"
#include "model/config.h"

namespace banyan {

// Of a tensor of plain bytes: those of experts hold two values each, beside which scales are few.
std::int64_t ValuesIn(const HostTensor& bytes);

// About: weights as each backend keeps them (packed_matrix.h, weight_forms.h), without activations.
std::vector<MemoryNeed> MemoryNeeds(const ModelConfig& config, const TensorStore& tensors);

}  // namespace banyan
