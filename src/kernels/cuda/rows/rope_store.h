// Norm of Q and K, rotary embedding (RoPE), and the store of K and V into their pages, in one
// launch; and the table of angles that it reads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

struct RotateCall {
  int rows = 0, heads = 0;
  int pairs = 0;                        // rotary_dim / 2
  const float* cosine = nullptr;        // [rows, pairs]
  const float* sine = nullptr;          // [rows, pairs]
  const float* query_factor = nullptr;  // [rows] of rotated queries; null: 1
  const std::int32_t* slots = nullptr;  // [rows]
  const float* query_norm = nullptr;    // null: no norm
  const float* key_norm = nullptr;
  const float* value_norm = nullptr;  // null: no norm
  bool stores = true;                 // false: rows are queries alone
  bool whole_norm = false;            // one norm over all heads
  float eps = 0.0f;
  float* qkv = nullptr;  // [rows, stride], updated in place unless `scaled_query` has the queries
  std::int64_t stride = 0;
  // Where queries go in the type of KV, times `query_scale`: [rows, heads, padded_dim]; or null.
  void* scaled_query = nullptr;
  float query_scale = 1.0f;
  KvView kv;
  KvType type = KvType::kF32;
  // Lists of the attention that follows: prefetched into the L2 cache.
  const std::byte* lists = nullptr;
  std::int64_t lists_bytes = 0;
};

void RotateAndStoreRows(cudaStream_t stream, const RotateCall& call);

// The norm over all heads alone: rows of so many values with a stride, in place; the bits are those
// of RotateAndStoreRows with whole_norm.
struct WholeNorm {
  std::int64_t rows = 0, values = 0, stride = 0;
  const float* weight = nullptr;
  float eps = 0.0f;
};
void NormWholeRows(cudaStream_t stream, const WholeNorm& norm, float* x);

// The angles by which a step's rows rotate their queries and keys:
// cosine and sine [rows, pairs] of position * inverse_frequency, times scale.
struct RopeAngles {
  const std::int32_t* positions = nullptr;   // [rows]
  const float* inverse_frequency = nullptr;  // [pairs]
  int rows = 0, pairs = 0;
  float scale = 1.0f;
};
void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine);

}  // namespace banyan::cuda
