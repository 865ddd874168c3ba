// The end of a product of codes: sums to memory in the wanted form.
#pragma once

#include <cstdint>

#include "kernels/cuda/products/coded_kernels.h"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/eight_bits.h"

namespace banyan::cuda {

struct CodedEnd {
  ProductEnd end;
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
  ProductForm form = ProductForm::kFloat32;
};

// Output n of a row whose scale is given, to element `at`.
__device__ inline void StoreCodedSum(const CodedEnd& call, std::int64_t at, std::int64_t n,
                                     float row_scale, std::int32_t sum) {
  const float value = SumOfCodes(sum, row_scale, call.w_scales[n]);
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

inline CodedEnd EndOf(const CodedOperands& operands) {
  return {{operands.out, operands.bias}, operands.x_scales, operands.w_scales, operands.form};
}

}  // namespace banyan::cuda
