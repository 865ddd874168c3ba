// Gated linear units: which function the gate is, and the product that one follows.
#pragma once

#include "kernels/tensor.h"

namespace banyan {

// The function of a gated linear unit's first half.
enum class Gate {
  kSilu,      // x / (1 + exp(-x)): SwiGLU
  kGeluTanh,  // x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))): GeGLU as Gemma has it
};

// The rows of `w` are those of the gate, then those that it multiplies.
struct GatedProduct {
  const Matrix& w;
  const Vector* bias = nullptr;
  Gate gate = Gate::kSilu;
};

}  // namespace banyan
