// From the padded head size of a call to kernels that are compiled for it.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

// Calls launch(std::integral_constant<int, Dim>) with the one of `Dims` that is `padded_dim`
// (attention.h, PaddedHeadDim).
template <int... Dims, typename Launch>
void ForHeadDim(int padded_dim, const Launch& launch) {
  const bool found =
      ((padded_dim == Dims ? (launch(std::integral_constant<int, Dims>()), true) : false) || ...);
  Check(found ? cudaSuccess : cudaErrorInvalidValue, "head size of attention");
}

}  // namespace banyan::cuda
