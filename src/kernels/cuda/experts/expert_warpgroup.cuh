// Products of a warpgroup with 64 rows of weights and a multiple of 8 rows of x: sum += W x^T over
// 16 of k. Weights lie in shared memory as the copy engine leaves them, or come as fragments in
// registers (of codes); x lies in shared memory, k-major as well (warpgroup_product.cuh).
#pragma once

#include "kernels/cuda/products/warpgroup_product.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

#define BANYAN_SUM_OF_2(Use) BANYAN_SUM1(Use, 0), BANYAN_SUM1(Use, 1)
#define BANYAN_SUM_OF_20(Use) BANYAN_SUM_OF_16(Use), BANYAN_SUM4(Use, 16)
#define BANYAN_REGS8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define BANYAN_REGS80 \
  BANYAN_REGS64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"

#define BANYAN_EXPERT_PRODUCT(Tiles, Columns, Regs, P0, P1, P2, P3, P4)                         \
  __device__ inline void ExpertWgmma(float(&sum)[Tiles][4], std::uint64_t w, std::uint64_t x) { \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Columns                   \
                                  "k16.f32.bf16.bf16 {" Regs "}, " P0 ", " P1                   \
                                  ", keep, 1, 1, 0, 0;\n}\n"                                    \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_NEXT)                                           \
                 : "l"(w), "l"(x));                                                             \
  }                                                                                             \
  __device__ inline void ExpertWgmma(float(&sum)[Tiles][4], const std::uint32_t(&w)[4],         \
                                     std::uint64_t x) {                                         \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Columns                   \
                                  "k16.f32.bf16.bf16 {" Regs "}, {" P0 "," P1 "," P2 "," P3     \
                                  "}, " P4 ", keep, 1, 1, 0;\n}\n"                              \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_NEXT)                                           \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));                         \
  }
BANYAN_EXPERT_PRODUCT(2, "16", BANYAN_REGS8, "%8", "%9", "%10", "%11", "%12")
BANYAN_EXPERT_PRODUCT(4, "32", BANYAN_REGS16, "%16", "%17", "%18", "%19", "%20")
BANYAN_EXPERT_PRODUCT(8, "64", BANYAN_REGS32, "%32", "%33", "%34", "%35", "%36")
BANYAN_EXPERT_PRODUCT(12, "96", BANYAN_REGS48, "%48", "%49", "%50", "%51", "%52")
BANYAN_EXPERT_PRODUCT(16, "128", BANYAN_REGS64, "%64", "%65", "%66", "%67", "%68")
BANYAN_EXPERT_PRODUCT(20, "160", BANYAN_REGS80, "%80", "%81", "%82", "%83", "%84")
BANYAN_EXPERT_PRODUCT(24, "192", BANYAN_REGS96, "%96", "%97", "%98", "%99", "%100")
#undef BANYAN_EXPERT_PRODUCT

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
