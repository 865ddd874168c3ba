// The part of config.json that says how weights were turned into codes of one byte:
// `quantization_config` of compressed-tensors and of Hugging Face's fp8.
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

// Throws kUnsupported, naming the method or the field, for every way but these: e4m3 or signed
// 8-bit codes with symmetric scales for each matrix, row or block. What activations were meant to
// be is of no interest here: they are whatever --precision says.
WeightScales ReadWeightScales(const JsonFields& quantization);

// Weights stored as codes of one byte beside a tensor of scales (WeightScales) → plain tensors.

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
