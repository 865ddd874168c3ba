// The inner loops for AVX-512 (F, BW, VL, DQ).
#define BANYAN_SIMD_TARGET simd_avx512
#include "kernels/cpu/loops/vector_kernels.inc"
