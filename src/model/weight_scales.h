// The part of config.json that says how weights were turned into codes of one byte:
// `quantization_config` of compressed-tensors and of Hugging Face's fp8.
#pragma once

#include "model/config.h"
#include "model/json_fields.h"

namespace banyan {

// Throws kUnsupported, naming the method or the field, for every way but these: e4m3 or signed
// 8-bit codes with symmetric scales for each matrix, row or block. What activations were meant to
// be is of no interest here: they are whatever --precision says.
WeightScales ReadWeightScales(const JsonFields& quantization);

}  // namespace banyan
