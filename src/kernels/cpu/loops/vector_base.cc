// The inner loops for the processor family as a whole: NEON on aarch64, SSE2 on x86-64.
#define BANYAN_SIMD_TARGET simd_base
#include "kernels/cpu/loops/vector_kernels.inc"
