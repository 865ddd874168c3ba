// The end of a bf16 product: a sum to memory in the wanted form.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/products/product_kernels.h"

namespace banyan::cuda {

struct ProductEnd {
  void* out = nullptr;
  const float* bias = nullptr;  // kBias only
};

// The sum of output n, which goes to element `at`.
template <ProductForm kForm>
__device__ inline void StoreSum(const ProductEnd& end, std::int64_t at, std::int64_t n, float sum) {
  if constexpr (kForm == ProductForm::kBf16) {
    static_cast<__nv_bfloat16*>(end.out)[at] = __float2bfloat16_rn(sum);
  } else {
    float& value = static_cast<float*>(end.out)[at];
    if constexpr (kForm == ProductForm::kFloat32) value = sum;
    if constexpr (kForm == ProductForm::kAdd) value = __fadd_rn(value, sum);
    if constexpr (kForm == ProductForm::kBias) value = __fadd_rn(sum, end.bias[n]);
  }
}

}  // namespace banyan::cuda
