// Weights stored as codes of one byte beside a tensor of scales (WeightScales) → plain tensors.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "formats/tensor_store.h"
#include "kernels/kernels.h"
#include "model/config.h"

namespace banyan {

// Finds the scales of all tensors of codes and lets the store give these out. Throws kFormat with
// file, tensor, what was expected and what was found where scales are missing or have another
// shape; kUnsupported where the codes are no matrix, or the configuration names no scales at all.
void FindScales(const WeightScales& scales, TensorStore& store);

// Whether a tensor holds scales (of weights, activations or KV) and no weights.
bool IsScalesName(std::string_view name);

struct ScaledTensor {
  HostTensor tensor;  // a view of `bytes`; moving keeps it valid
  std::vector<std::byte> bytes;
};

// Codes times scales, each product rounded to float32; with precision f32 that is what is stored,
// otherwise it is rounded to bf16. Throws kFormat where a weight or a scale is not finite.
// REQUIRES: FindScales has found the scales of `codes`.
ScaledTensor ApplyScales(const HostTensor& codes, const TensorStore& store,
                         const WeightScales& scales, Precision precision, ThreadPool& pool);

}  // namespace banyan
