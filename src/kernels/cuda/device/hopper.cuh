// Hopper's own instructions: barriers in shared memory that count bytes, bulk and tensor copies
// that complete on them, thread block clusters, and registers moved between warpgroups. The matrix
// products of a warpgroup are in wgmma.cuh.
#pragma once

#include <cuda.h>

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

// --- Tensor copies: boxes of a matrix that a tensor map describes -------------------------------
// The boxes from `box` on, of the rows from `row` on; their bytes count on the
// barrier. The policy says what the cache may drop first.
__device__ inline void CopyBoxes(void* shared, const CUtensorMap& map, int row, int box,
                                 std::uint64_t& barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(SharedAddress(shared)),
      "l"(&map), "r"(0), "r"(row), "r"(box), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}
// Ahead of its first use.
__device__ inline void FetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Part of some rows of bytes (MapOfRows), from element `at` (of 8 bytes) of row `row` on; the bytes
// count on the barrier.
__device__ inline void CopyRows(void* shared, const CUtensorMap& map, int row, int at,
                                std::uint64_t& barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(SharedAddress(shared)),
      "l"(&map), "r"(at), "r"(row), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}

// --- Clusters -----------------------------------------------------------------------------------
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" ::: "memory");
}
// Arrives at the barrier of this name in a block of the cluster. What the arriving thread wrote is
// not published (that would be a fence for the whole device): it says that something was read.
__device__ inline void ArriveAt(std::uint64_t& barrier, int block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(SharedAddress(&barrier)),
      "r"(block)
      : "memory");
}
// CopyBoxes to the same place in every block that `blocks` has a bit for, where
// the bytes count on the barrier of the same name.
__device__ inline void CopyBoxesToAll(void* shared, const CUtensorMap& map, int row, int box,
                                      std::uint64_t& barrier, int blocks, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;\n" ::"r"(
          SharedAddress(shared)),
      "l"(&map), "r"(0), "r"(row), "r"(box), "r"(SharedAddress(&barrier)),
      "h"(static_cast<std::uint16_t>(blocks)), "l"(policy)
      : "memory");
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
