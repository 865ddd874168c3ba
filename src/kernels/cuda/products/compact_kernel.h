// Products of few rows with compact weights.
#pragma once

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/weights/compact_matrix.h"

namespace banyan::cuda {

// The product of at most kMostCompactRows rows; operands.w is not looked at, and shape.outputs is
// w.padded_rows. Bits are those of MultiplyBF16 on the converted weights.
inline constexpr std::int64_t kMostCompactRows = 32;
void MultiplyCompact(cudaStream_t stream, const CompactRows& w, const ProductOperands& operands);

}  // namespace banyan::cuda
