// How the two halves of an expert's first product become its inner value (kernels/experts.h).
#pragma once

#include "kernels/cuda/rows/swiglu.cuh"
#include "kernels/experts.h"

namespace banyan::cuda {

__device__ inline float GatedByExpert(const ExpertGate& gate, float g, float up) {
  if (gate.limit == 0.0f) return Gated(gate.function, g, up);
  g = g > gate.limit ? gate.limit : g;  // NaN stays
  up = up > gate.limit ? gate.limit : up < -gate.limit ? -gate.limit : up;
  const float sigmoid = 1.0f / __fadd_rn(1.0f, expf(-__fmul_rn(gate.slope, g)));
  return __fmul_rn(__fadd_rn(up, 1.0f), __fmul_rn(g, sigmoid));
}

// What becomes of the sums of an output and a slot.
struct ExpertEnd {
  ExpertGate gate;
  float* float32;
  __nv_bfloat16* bf16;
  std::int64_t stride, first_row, rows;  // rows: of the part

  __device__ void Store(int slot, std::int64_t n, float sum, const float* bias) const {
    if (n >= rows) return;
    if (bias != nullptr) sum = __fadd_rn(sum, bias[n]);
    float32[slot * stride + first_row + n] = sum;
  }
  __device__ void StoreGated(int slot, std::int64_t n, float g, float up, const float* gate_bias,
                             const float* up_bias) const {
    if (n >= stride) return;
    float value = 0.0f;
    if (n < rows) {
      if (gate_bias != nullptr) g = __fadd_rn(g, gate_bias[n]);
      if (up_bias != nullptr) up = __fadd_rn(up, up_bias[n]);
      value = GatedByExpert(gate, g, up);
    }
    bf16[slot * stride + n] = __float2bfloat16_rn(value);
  }
};

}  // namespace banyan::cuda
