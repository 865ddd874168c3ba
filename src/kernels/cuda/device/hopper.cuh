// Hopper's own instructions: barriers in shared memory that count bytes, bulk copies that complete
// on them, and matrix products of a warpgroup (four warps, 64 rows) with operands in shared memory.
//
// Operands lie in "tiles" of 8 x 8 16-bit values, 128 bytes each: row r of a tile is its bytes
// [16 r, 16 r + 16). A tile is what the matrix units read at a time, so no swizzle is needed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace banyan::cuda {

// Warpgroup instructions exist only in code for sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BANYAN_SM90A 1
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#error "compile for 90a, not 90: the kernels of Hopper would be empty"
#endif

// Shared memory that a block can have.
inline constexpr int kMostSharedBytes = 227 * 1024;

__device__ inline std::uint32_t SharedAddress(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

#ifdef BANYAN_SM90A

// --- Barriers -----------------------------------------------------------------------------------
__device__ inline void InitBarrier(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
               "r"(arrivals)
               : "memory");
}
// After initialisation, before anyone (the copy engine too) uses the barriers; then synchronise.
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
__device__ inline void Arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(SharedAddress(&barrier))
               : "memory");
}
// One arrival, and the phase also waits for this many bytes.
__device__ inline void ArriveExpecting(std::uint64_t& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
      "r"(bytes)
      : "memory");
}
// Until the phase of this parity is complete.
__device__ inline void Wait(std::uint64_t& barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(SharedAddress(&barrier)),
      "r"(parity)
      : "memory");
}

// --- What the L2 cache may drop first -----------------------------------------------------------
__device__ inline std::uint64_t DropFirst() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}
__device__ inline std::uint64_t DropLast() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}

// --- Copies -------------------------------------------------------------------------------------
// Contiguous bytes, a multiple of 16, both ends aligned to 16; they count on the barrier.
__device__ inline void CopyBulk(void* shared, const void* global, int bytes,
                                std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(SharedAddress(&barrier))
      : "memory");
}
// The same under a policy of the cache.
__device__ inline void CopyBulk(void* shared, const void* global, int bytes, std::uint64_t& barrier,
                                std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;\n" ::"r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}
// From shared memory to global, in the background; bytes and ends as above. The thread that asks
// commits, and may wait until what it asked for has been read; the end of the kernel waits for the
// writes, but shared memory must not be left before it was read.
__device__ inline void StoreBulk(void* global, const void* shared, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes)
               : "memory");
}
__device__ inline void CommitStores() {
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}
__device__ inline void WaitUntilStoresAreRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory");
}
// What this thread wrote to shared memory becomes visible to the matrix units and the copy engine.
__device__ inline void PublishToMatrixUnits() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// Among `threads` threads, whole warps; barrier 0 is __syncthreads.
__device__ inline void SyncSome(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
// Arrives there without waiting for the others.
__device__ inline void ArriveSome(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// --- Registers ----------------------------------------------------------------------------------
// A whole warpgroup changes how many registers each of its threads has.
template <int Count>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Count));
}
template <int Count>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Count));
}

// --- Matrix products of a warpgroup -------------------------------------------------------------
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

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
