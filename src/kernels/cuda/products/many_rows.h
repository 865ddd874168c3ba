// bf16 products of many rows on Hopper, by a kernel of our own with large tiles: what the library
// has no way for, SwiGLU at the end of the product of gate and up, so that neither goes to memory.
// Bits are those of MultiplyBF16 and SwiGluRows; like every way it serves only after comparison.
#pragma once

#include "kernels/cuda/products/product_kernels.h"

namespace banyan::cuda {

// Whether the current device and such a product allow it: SwiGLU, whole boxes along k, and pieces
// of 16 bytes of the output.
bool ManyRowsCanServe(const ProductOperands& operands);

// REQUIRES: ManyRowsCanServe.
void MultiplyManyRows(cudaStream_t stream, const ProductOperands& operands);

}  // namespace banyan::cuda
