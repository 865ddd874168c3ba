// Checkpoints whose weights are one-byte values beside a tensor of scales: `quantization_config` of
// compressed-tensors and of Hugging Face's fp8, and the weights as plain tensors.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "formats/tensor_store.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/json_fields.h"

namespace banyan {

// Throws kUnsupported, naming the method or the field, for everything but e4m3 or int8 values with
// symmetric scales for each matrix, row or block. Quantization of activations is ignored:
// --precision decides it.
WeightScales ReadWeightScales(const JsonFields& quantization);

// Finds the scales of all quantized tensors, which the store then gives out. Throws kFormat with
// file, tensor, expected and found where scales are missing or have another shape; kUnsupported
// where a quantized tensor is no matrix, or the configuration names no scales at all.
void FindScales(const WeightScales& scales, TensorStore& store);

// Whether a tensor holds scales (of weights, activations or KV) rather than weights.
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
