// The inner loops for AVX2 with FMA and F16C.
#define BANYAN_SIMD_TARGET simd_avx2
#include "kernels/cpu/loops/vector_kernels.inc"
