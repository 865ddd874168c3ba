// The gate of a feed-forward block, as every kernel computes it.
#pragma once

#include <cuda_bf16.h>

namespace banyan::cuda {

__device__ inline float SwiGlu(float gate, float up) {
  return __fmul_rn(gate / __fadd_rn(1.0f, expf(-gate)), up);
}
// With bf16 on both sides the exponential and the reciprocal of the hardware are exact enough by
// far (relative errors of 2^-22, where a bf16 value has 2^-9). e^-gate becomes infinite below -88,
// and the gate -0 then.
__device__ inline float SwiGluOfBf16(float gate, float up) {
  constexpr float kMinusLog2E = -1.44269504f;
  float power, sigmoid;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(__fmul_rn(gate, kMinusLog2E)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(sigmoid) : "f"(__fadd_rn(1.0f, power)));
  return __fmul_rn(__fmul_rn(gate, sigmoid), up);
}

}  // namespace banyan::cuda
