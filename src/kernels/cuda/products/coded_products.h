// Products with weights in 8 bits (precision w8a8), whatever the number of rows: which kernel
// serves.
#pragma once

#include <memory>

#include "kernels/cuda/products/coded_kernels.h"
#include "kernels/cuda/rows/row_codes.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

// Weights of any form as codes with a scale per output; null where they cannot be had in 8 bits
// (float32, too many columns). `matrix` may go in the order of the stream.
std::shared_ptr<const DeviceMatrix> CodeMatrix(const std::shared_ptr<const Device>& device,
                                               const DeviceMatrix& matrix);

struct CodedTarget {
  ProductForm form = ProductForm::kFloat32;
  void* out = nullptr;
  const float* bias = nullptr;       // [w.padded_rows], for kBias
  __nv_bfloat16* scratch = nullptr;  // [rows, w.padded_rows], for kSwiGlu
  RowCodes codes = {};               // kSwiGlu: where the outputs' codes may be left as well
};
// Leaves W x[r] in `target` as its form says. Launches only. True: the outputs' codes are there
// too.
bool MultiplyCoded(const Device& device, const RowCodes& x, std::int64_t rows,
                   const DeviceMatrix& w, const CodedTarget& target);

// Without what is written or added.
CodedOperands CodedOperandsOf(const RowCodes& x, std::int64_t rows, const DeviceMatrix& w,
                              ProductForm form);

}  // namespace banyan::cuda
