// An encoder's parameters in backend memory, named alike for all file formats.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tensor_store.h"
#include "kernels/kernels.h"
#include "model/encoder_config.h"
#include "model/weights.h"

namespace banyan {

struct LinearWeights {
  MatrixRef matrix;  // null: the model has no such layer
  VectorRef bias;
};

struct NormWeights {
  VectorRef weight, bias;
};

struct EncoderLayerWeights {
  LinearWeights qkv;     // [3 * hidden, hidden]: Q, K, V
  LinearWeights output;  // [hidden, hidden]
  NormWeights attention_norm;
  LinearWeights up;    // [ffn, hidden]
  LinearWeights down;  // [hidden, ffn]
  NormWeights ffn_norm;
};

struct EncoderWeights {
  MatrixRef tokens;     // [vocab, hidden]
  MatrixRef positions;  // [position_rows, hidden], the vector of token type 0 in every row
  NormWeights embedding_norm;
  std::vector<EncoderLayerWeights> layers;
  // Heads, where the model has them.
  LinearWeights sparse;            // [1, hidden]
  LinearWeights colbert;           // [any, hidden]
  LinearWeights classifier_inner;  // [hidden, hidden]
  LinearWeights classifier;        // [1, hidden]
  std::int64_t bytes = 0;          // resident matrices
};

// `progress` as in LoadWeights. Throws when a tensor is missing or has another shape than the
// configuration implies.
EncoderWeights LoadEncoderWeights(const EncoderConfig& config, const TensorStore& store,
                                  TensorNaming naming, Kernels& kernels,
                                  const LoadProgress& progress);

}  // namespace banyan
