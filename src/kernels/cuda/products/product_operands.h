// The operands of a product by weights on the device.
#pragma once

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

// Elements from row to row of what a product by `w` leaves: padded as `w` is, or, where half as
// many columns come out, as tensors are.
std::int64_t OutputStride(const DeviceMatrix& w, ProductForm form);
// Without what is written or added: out, bias and scratch.
ProductOperands OperandsOf(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                           ProductForm form);
// What a way that knows no SwiGLU has to do of it: gate and up. Other products stay as they are.
ProductOperands ProductOf(const ProductOperands& operands);

}  // namespace banyan::cuda
