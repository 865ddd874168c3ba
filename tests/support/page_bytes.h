// Bytes of one page of a model's KV, over all layers.
#pragma once

#include <cstdint>

#include "banyan/model.h"
#include "load/model_parts.h"

namespace banyan::testing_support {

inline std::int64_t PageBytes(const Model& model) {
  const ModelConfig& config = model.parts().config;
  return model.parts().kernels->KvPageBytes({config.layers, config.kv_heads, config.head_dim});
}

}  // namespace banyan::testing_support
