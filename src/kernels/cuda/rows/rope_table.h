// The angles by which a step's rows turn their queries and keys.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace banyan::cuda {

// cosine and sine [rows, pairs] of position * inverse_frequency, times scale.
struct RopeAngles {
  const std::int32_t* positions = nullptr;   // [rows]
  const float* inverse_frequency = nullptr;  // [pairs]
  int rows = 0, pairs = 0;
  float scale = 1.0f;
};
void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine);

}  // namespace banyan::cuda
