// Products of a warpgroup with 8-bit codes in shared memory as the copy engine leaves them
// (warpgroup_product.cuh); sums are exact integers.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/warpgroup_product.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// sum += A B^T over 32 of k: A [64, 32], B [width, 32].
#define BANYAN_CODE_SUM(x) "+r"(x)
#define BANYAN_CODED_PRODUCT(Tiles, Width, Regs, A, B)                                             \
  __device__ inline void CodedProduct(std::int32_t(&sum)[Tiles][4], std::uint64_t a,               \
                                      std::uint64_t b) {                                           \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Width "k32.s32.s8.s8 {" Regs \
                                  "}, " A ", " B ", keep;\n}\n"                                    \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_CODE_SUM)                                          \
                 : "l"(a), "l"(b));                                                                \
  }
BANYAN_CODED_PRODUCT(8, "64", BANYAN_REGS32, "%32", "%33")
BANYAN_CODED_PRODUCT(16, "128", BANYAN_REGS64, "%64", "%65")
BANYAN_CODED_PRODUCT(24, "192", BANYAN_REGS96, "%96", "%97")
#undef BANYAN_CODED_PRODUCT
#undef BANYAN_CODE_SUM

// As Pin of float sums.
template <int kTiles>
__device__ inline void PinCodes(std::int32_t (&sum)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(sum[n][i])::"memory");
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
