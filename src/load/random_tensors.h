// Random weights as a file would hold them, under Hugging Face's names.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/tensor_store.h"
#include "model/config.h"

namespace banyan {

struct RandomTensors {
  std::vector<std::vector<std::byte>> memory;
  TensorStore store;  // views into memory
};

// All tensors of the model; matrices in `matrix_type`, norms of ones.
RandomTensors MakeRandomTensors(const ModelConfig& config, DType matrix_type);

}  // namespace banyan
