// Matrix products of a warpgroup (wgmma): four warps multiply 64 rows of A by B^T, with sums in
// registers and B, often A too, in shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// --- Operands without a swizzle: attention ------------------------------------------------------
// They lie in tiles of 8 x 8 16-bit
// values, 128 bytes each: row r of a tile is its bytes [16 r, 16 r + 16). A tile is what the matrix
// units read at a time, so no swizzle is needed.
//
// An operand in shared memory: bytes from a tile to the next one along k, and to the next one along
// the operand's rows (of A or B^T). The tiles' own rows may be rows of the operand, or, transposed,
// steps along k.
class TileOperand {
 public:
  __device__ TileOperand(const void* shared, int across_k, int across_rows)
      : low_(SharedAddress(shared) >> 4 | static_cast<std::uint32_t>(across_k) >> 4 << 16),
        high_(static_cast<std::uint32_t>(across_rows) >> 4) {}
  // The descriptor of what lies `bytes` further on. Shared addresses have 18 bits: no carry.
  __device__ std::uint64_t At(int bytes) const {
    return static_cast<std::uint64_t>(high_) << 32 |
           (low_ + static_cast<std::uint32_t>(bytes) / 16);
  }

 private:
  std::uint32_t low_, high_;
};

__device__ inline void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
__device__ inline void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
}
// Keeps the compiler from reading or moving results before the wait.
template <int Tiles>
__device__ inline void Pin(float (&sum)[Tiles][4]) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sum[n][i])::"memory");
  }
}

// sum[n] are columns 8 n .. 8 n + 7 in the layout of Mma (mma.cuh), warp w of the group having rows
// 16 w .. 16 w + 15. First products overwrite sum, Next ones add to it: what a sum held before its
// first product needs no registers.
#define BANYAN_SUM1(Use, n) Use(sum[n][0]), Use(sum[n][1]), Use(sum[n][2]), Use(sum[n][3])
#define BANYAN_SUM4(Use, n) \
  BANYAN_SUM1(Use, n), BANYAN_SUM1(Use, n + 1), BANYAN_SUM1(Use, n + 2), BANYAN_SUM1(Use, n + 3)
#define BANYAN_SUM_OF_4(Use) BANYAN_SUM4(Use, 0)
#define BANYAN_SUM_OF_8(Use) BANYAN_SUM_OF_4(Use), BANYAN_SUM4(Use, 4)
#define BANYAN_SUM_OF_10(Use) BANYAN_SUM_OF_8(Use), BANYAN_SUM1(Use, 8), BANYAN_SUM1(Use, 9)
#define BANYAN_SUM_OF_12(Use) BANYAN_SUM_OF_8(Use), BANYAN_SUM4(Use, 8)
#define BANYAN_SUM_OF_16(Use) BANYAN_SUM_OF_12(Use), BANYAN_SUM4(Use, 12)
#define BANYAN_REGS16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define BANYAN_REGS32 \
  BANYAN_REGS16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define BANYAN_REGS40 BANYAN_REGS32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define BANYAN_REGS48 BANYAN_REGS40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define BANYAN_REGS64 \
  BANYAN_REGS48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define BANYAN_FIRST(x) "=f"(x)
#define BANYAN_NEXT(x) "+f"(x)
#define BANYAN_KEEP_FIRST "{\n.reg .pred keep;\nsetp.ne.b32 keep, 0, 0;\n"
#define BANYAN_KEEP_NEXT "{\n.reg .pred keep;\nsetp.eq.b32 keep, 0, 0;\n"

// A [64, 16] and B [128 rows, 16], both k-major in shared memory.
#define BANYAN_SCORE_PRODUCT(Function, Element, Name, Keep, Use)                        \
  __device__ inline void Function(float(&sum)[16][4], std::uint64_t a, std::uint64_t b, \
                                  Element /*type*/) {                                   \
    asm volatile(Keep "wgmma.mma_async.sync.aligned.m64n128k16.f32." Name "." Name      \
                      " {" BANYAN_REGS64 "}, %64, %65, keep, 1, 1, 0, 0;\n}\n"          \
                 : BANYAN_SUM_OF_16(Use)                                                \
                 : "l"(a), "l"(b));                                                     \
  }
BANYAN_SCORE_PRODUCT(FirstScoreProduct, __half, "f16", BANYAN_KEEP_FIRST, BANYAN_FIRST)
BANYAN_SCORE_PRODUCT(NextScoreProduct, __half, "f16", BANYAN_KEEP_NEXT, BANYAN_NEXT)
BANYAN_SCORE_PRODUCT(FirstScoreProduct, __nv_bfloat16, "bf16", BANYAN_KEEP_FIRST, BANYAN_FIRST)
BANYAN_SCORE_PRODUCT(NextScoreProduct, __nv_bfloat16, "bf16", BANYAN_KEEP_NEXT, BANYAN_NEXT)
#undef BANYAN_SCORE_PRODUCT

// A [64, 16] in registers as for Mma; B [16, columns] transposed in shared memory.
#define BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, Tiles, Columns, Regs, A0, A1, A2, \
                             A3, B)                                                                \
  __device__ inline void Function(float(&sum)[Tiles][4], const std::uint32_t(&a)[4],               \
                                  std::uint64_t b, Element /*type*/) {                             \
    asm volatile(Keep "wgmma.mma_async.sync.aligned.m64n" Columns "k16.f32." Name "." Name         \
                      " {" Regs "}, {" A0 "," A1 "," A2 "," A3 "}, " B ", keep, 1, 1, 1;\n}\n"     \
                 : BANYAN_SUM_OF_##Tiles(Use)                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                            \
  }
#define BANYAN_VALUE_PRODUCTS(Function, Element, Name, Keep, Use)                                  \
  BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, 4, "32", BANYAN_REGS16, "%16", "%17",   \
                       "%18", "%19", "%20")                                                        \
  BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, 8, "64", BANYAN_REGS32, "%32", "%33",   \
                       "%34", "%35", "%36")                                                        \
  BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, 10, "80", BANYAN_REGS40, "%40", "%41",  \
                       "%42", "%43", "%44")                                                        \
  BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, 12, "96", BANYAN_REGS48, "%48", "%49",  \
                       "%50", "%51", "%52")                                                        \
  BANYAN_VALUE_PRODUCT(Function, Element, Name, Keep, Use, 16, "128", BANYAN_REGS64, "%64", "%65", \
                       "%66", "%67", "%68")
BANYAN_VALUE_PRODUCTS(FirstValueProduct, __half, "f16", BANYAN_KEEP_FIRST, BANYAN_FIRST)
BANYAN_VALUE_PRODUCTS(NextValueProduct, __half, "f16", BANYAN_KEEP_NEXT, BANYAN_NEXT)
BANYAN_VALUE_PRODUCTS(FirstValueProduct, __nv_bfloat16, "bf16", BANYAN_KEEP_FIRST, BANYAN_FIRST)
BANYAN_VALUE_PRODUCTS(NextValueProduct, __nv_bfloat16, "bf16", BANYAN_KEEP_NEXT, BANYAN_NEXT)
#undef BANYAN_VALUE_PRODUCTS
#undef BANYAN_VALUE_PRODUCT

// --- Swizzled operands, as tensor copies leave them (tensor_map.h) ------------------------------
// Rows of a box from an address that is a multiple of 1024 on.
class SwizzledOperand {
 public:
  __device__ explicit SwizzledOperand(const void* shared) : low_(SharedAddress(shared) >> 4) {}
  // The descriptor of what lies `bytes` further on: whole groups of 8 rows, or steps within the 128
  // bytes of a row.
  __device__ std::uint64_t At(int bytes) const {
    constexpr std::uint64_t kSwizzle128 = 1ull << 62, kGroupOfRows = std::uint64_t{1024 / 16} << 32;
    return kSwizzle128 | kGroupOfRows | (low_ + static_cast<std::uint32_t>(bytes) / 16);
  }

 private:
  std::uint32_t low_;
};

template <int kLeft>
__device__ inline void WaitForProductsBut() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kLeft) : "memory");
}

#define BANYAN_SUM_OF_24(Use) BANYAN_SUM_OF_16(Use), BANYAN_SUM4(Use, 16), BANYAN_SUM4(Use, 20)
#define BANYAN_REGS96                                                                             \
  BANYAN_REGS64                                                                                   \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86," \
  "%87,%88,%89,%90,%91,%92,%93,%94,%95"

// --- bf16: 64 rows of A by a multiple of 8 rows of B --------------------------------------------
// sum += A B^T over 16 of k. A is swizzled in shared memory, or in registers as fragments; B is
// swizzled in shared memory. Both are k-major.
#define BANYAN_SUM_OF_2(Use) BANYAN_SUM1(Use, 0), BANYAN_SUM1(Use, 1)
#define BANYAN_SUM_OF_20(Use) BANYAN_SUM_OF_16(Use), BANYAN_SUM4(Use, 16)
#define BANYAN_REGS8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define BANYAN_REGS80 \
  BANYAN_REGS64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"

#define BANYAN_WGMMA(Tiles, Columns, Regs, P0, P1, P2, P3, P4)                              \
  __device__ inline void Wgmma(float(&sum)[Tiles][4], std::uint64_t w, std::uint64_t x) {   \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Columns               \
                                  "k16.f32.bf16.bf16 {" Regs "}, " P0 ", " P1               \
                                  ", keep, 1, 1, 0, 0;\n}\n"                                \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_NEXT)                                       \
                 : "l"(w), "l"(x));                                                         \
  }                                                                                         \
  __device__ inline void Wgmma(float(&sum)[Tiles][4], const std::uint32_t(&w)[4],           \
                               std::uint64_t x) {                                           \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Columns               \
                                  "k16.f32.bf16.bf16 {" Regs "}, {" P0 "," P1 "," P2 "," P3 \
                                  "}, " P4 ", keep, 1, 1, 0;\n}\n"                          \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_NEXT)                                       \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x));                     \
  }
BANYAN_WGMMA(2, "16", BANYAN_REGS8, "%8", "%9", "%10", "%11", "%12")
BANYAN_WGMMA(4, "32", BANYAN_REGS16, "%16", "%17", "%18", "%19", "%20")
BANYAN_WGMMA(8, "64", BANYAN_REGS32, "%32", "%33", "%34", "%35", "%36")
BANYAN_WGMMA(12, "96", BANYAN_REGS48, "%48", "%49", "%50", "%51", "%52")
BANYAN_WGMMA(16, "128", BANYAN_REGS64, "%64", "%65", "%66", "%67", "%68")
BANYAN_WGMMA(20, "160", BANYAN_REGS80, "%80", "%81", "%82", "%83", "%84")
BANYAN_WGMMA(24, "192", BANYAN_REGS96, "%96", "%97", "%98", "%99", "%100")
#undef BANYAN_WGMMA

// --- int8: sums are exact integers --------------------------------------------------------------
// sum += A B^T over 32 of k: A [64, 32], B [width, 32].
#define BANYAN_INT8_SUM(x) "+r"(x)
#define BANYAN_INT8_WGMMA(Tiles, Width, Regs, A, B)                                                \
  __device__ inline void Wgmma(std::int32_t(&sum)[Tiles][4], std::uint64_t a, std::uint64_t b) {   \
    asm volatile(BANYAN_KEEP_NEXT "wgmma.mma_async.sync.aligned.m64n" Width "k32.s32.s8.s8 {" Regs \
                                  "}, " A ", " B ", keep;\n}\n"                                    \
                 : BANYAN_SUM_OF_##Tiles(BANYAN_INT8_SUM)                                          \
                 : "l"(a), "l"(b));                                                                \
  }
BANYAN_INT8_WGMMA(2, "16", BANYAN_REGS8, "%8", "%9")
BANYAN_INT8_WGMMA(4, "32", BANYAN_REGS16, "%16", "%17")
BANYAN_INT8_WGMMA(8, "64", BANYAN_REGS32, "%32", "%33")
BANYAN_INT8_WGMMA(12, "96", BANYAN_REGS48, "%48", "%49")
BANYAN_INT8_WGMMA(16, "128", BANYAN_REGS64, "%64", "%65")
BANYAN_INT8_WGMMA(20, "160", BANYAN_REGS80, "%80", "%81")
BANYAN_INT8_WGMMA(24, "192", BANYAN_REGS96, "%96", "%97")
#undef BANYAN_INT8_WGMMA
#undef BANYAN_INT8_SUM

template <int kTiles>
__device__ inline void Pin(std::int32_t (&sum)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(sum[n][i])::"memory");
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
