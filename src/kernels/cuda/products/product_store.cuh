// The end of a bf16 product: a sum to memory in the wanted form.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/int8.h"

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

// The end of a product of codes: sums to memory in the wanted form.

struct Int8End {
  ProductEnd end;
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
  ProductForm form = ProductForm::kFloat32;
};

// Output n of a row whose scale is given, to element `at`.
__device__ inline void StoreInt8Sum(const Int8End& call, std::int64_t at, std::int64_t n,
                                    float row_scale, std::int32_t sum) {
  const float value = DequantizeSum(sum, row_scale, call.w_scales[n]);
  switch (call.form) {
    case ProductForm::kFloat32:
      return StoreSum<ProductForm::kFloat32>(call.end, at, n, value);
    case ProductForm::kAdd:
      return StoreSum<ProductForm::kAdd>(call.end, at, n, value);
    case ProductForm::kBias:
      return StoreSum<ProductForm::kBias>(call.end, at, n, value);
    default:
      return StoreSum<ProductForm::kBf16>(call.end, at, n, value);
  }
}

inline Int8End EndOf(const Int8Operands& operands) {
  return {{operands.out, operands.bias}, operands.x_scales, operands.w_scales, operands.form};
}

}  // namespace banyan::cuda
