// The gate of a feed-forward block, as every kernel computes it.
#pragma once

#include <cuda_bf16.h>

#include "kernels/experts.h"

namespace banyan::cuda {

__device__ inline float SwiGlu(float gate, float up) {
  return __fmul_rn(gate / __fadd_rn(1.0f, expf(-gate)), up);
}
// With bf16 on both sides the exponential and the reciprocal of the hardware are exact enough by
// far: the result is off by 2^-18 of itself at most, where a bf16 value has 2^-9. Below about -87
// it is -0, since the exponential or its reciprocal leaves the range of float32.
__device__ inline float SwiGluOfBf16(float gate, float up) {
  constexpr float kMinusLog2E = -1.44269504f;
  float power, sigmoid;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(__fmul_rn(gate, kMinusLog2E)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(sigmoid) : "f"(__fadd_rn(1.0f, power)));
  return __fmul_rn(__fmul_rn(gate, sigmoid), up);
}

// GELU by tanh is x times the logistic function of 2 sqrt(2/pi) (x + 0.044715 x³).
__device__ inline float GeGlu(float gate, float up) {
  const float inner = fmaf(__fmul_rn(gate, gate), 0.044715f, 1.0f);
  const float power = __fmul_rn(__fmul_rn(gate, -1.59576912f), inner);
  return __fmul_rn(gate / __fadd_rn(1.0f, expf(power)), up);
}

__device__ inline float LogisticGate(float gate, float value) {
  return value / __fadd_rn(1.0f, expf(-gate));
}

__device__ inline float Gated(Gate function, float gate, float value) {
  if (function == Gate::kLogistic) return LogisticGate(gate, value);
  return function == Gate::kSilu ? SwiGlu(gate, value) : GeGlu(gate, value);
}

}  // namespace banyan::cuda
