#include "kernels/cuda/products/product_operands.h"

#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {

std::int64_t OutputStride(const DeviceMatrix& w, ProductForm form) {
  return form == ProductForm::kSwiGlu ? Stride(w.rows / 2) : w.padded_rows;
}

ProductOperands OperandsOf(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                           ProductForm form) {
  ProductOperands operands;
  operands.x = x;
  operands.w = w.memory.As<__nv_bfloat16>();
  operands.shape = {rows, w.padded_rows, w.stride, OutputStride(w, form), 0};
  if (form == ProductForm::kSwiGlu) operands.shape.gated = w.rows / 2;
  operands.form = form;
  operands.w_is_fresh = w.fresh;
  return operands;
}

ProductOperands ProductOf(const ProductOperands& operands) {
  return operands.form == ProductForm::kSwiGlu ? GateAndUp(operands) : operands;
}

}  // namespace banyan::cuda
