// Sums of products of experts: float of bf16 values, or integers of codes. Lanes of a matrix
// instruction hold the same bytes of either, so that the type of the sum is all that differs.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/mma.cuh"

namespace banyan::cuda {

template <typename Sum>
inline constexpr bool kIsOfCodes = std::is_same_v<Sum, std::int32_t>;

template <typename Sum>
__device__ void AddProducts(Sum (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) {
  if constexpr (kIsOfCodes<Sum>) {
    MmaInt8(sums, a, b0, b1);
  } else {
    Mma(sums, a, b0, b1, __nv_bfloat16{});
  }
}

}  // namespace banyan::cuda
