// The end of a bf16 product: two neighbouring sums of a row to memory in the wanted form.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/product_kernels.h"

namespace banyan::cuda {

template <ProductForm kForm>
__device__ inline void StoreSum(void* out, std::int64_t at, float sum) {
  if constexpr (kForm == ProductForm::kWide) {
    static_cast<float*>(out)[at] = sum;
  } else if constexpr (kForm == ProductForm::kAdd) {
    float& value = static_cast<float*>(out)[at];
    value = __fadd_rn(value, sum);
  } else {
    static_cast<__nv_bfloat16*>(out)[at] = __float2bfloat16_rn(sum);
  }
}

}  // namespace banyan::cuda
