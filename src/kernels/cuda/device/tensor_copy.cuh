// Copies of boxes of a matrix (tensor_map.h) to shared memory by Hopper's copy engine.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// The boxes from `box` on, of the rows from `row` on; their bytes count on the barrier. The policy
// says what the cache may drop first.
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

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
