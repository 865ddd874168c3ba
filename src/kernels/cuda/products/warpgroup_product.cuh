// Matrix products of a warpgroup with large tiles: operands in shared memory as the copy engine
// leaves them (boxes of 128-byte rows whose pieces have changed places, tensor_map.h), and what a
// cluster of blocks needs to share them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

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
// CopyBoxes (tensor_copy.cuh) to the same place in every block that `blocks` has a bit for, where
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

// --- Products -----------------------------------------------------------------------------------
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
// sum += A B^T over 16 of k: A [64, 16], B [192, 16].
__device__ inline void Product(float (&sum)[24][4], std::uint64_t a, std::uint64_t b) {
  asm volatile(BANYAN_KEEP_NEXT
               "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" BANYAN_REGS96
               "}, %96, %97, keep, 1, 1, 0, 0;\n}\n"
               : BANYAN_SUM_OF_24(BANYAN_NEXT)
               : "l"(a), "l"(b));
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
