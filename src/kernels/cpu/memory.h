// Activations and parameter vectors of the cpu backend: what lies behind Tensor and Vector.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace banyan {

// Rows are padded to whole panels, so that a product may write its last panel in full.
inline std::int64_t Stride(std::int64_t columns) { return (columns + 15) / 16 * 16; }
inline float* Data(const Tensor& tensor) { return static_cast<float*>(tensor.memory.get()); }
inline float* Row(const Tensor& tensor, std::int64_t row) {
  return Data(tensor) + row * Stride(tensor.columns);
}

class FloatVector : public Vector {
 public:
  std::vector<float> values;
};
inline const float* Values(const Vector& vector) {
  return static_cast<const FloatVector&>(vector).values.data();
}

}  // namespace banyan
