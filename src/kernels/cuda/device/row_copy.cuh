// Copies of parts of rows of bytes (row_map.h) to shared memory by Hopper's copy engine.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/hopper.cuh"

namespace banyan::cuda {

#ifdef BANYAN_SM90A

// From element `at` (of 8 bytes) of row `row` on; the bytes count on the barrier.
__device__ inline void CopyRows(void* shared, const CUtensorMap& map, int row, int at,
                                std::uint64_t& barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(SharedAddress(shared)),
      "l"(&map), "r"(at), "r"(row), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
