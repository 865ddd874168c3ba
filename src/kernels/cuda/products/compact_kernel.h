// Products of few rows with compact weights. operands.w is not looked at, and shape.outputs is
// w.padded_rows. Bits are those of MultiplyBF16 on the converted weights.
#pragma once

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/weights/compact_matrix.h"

namespace banyan::cuda {

// At most kMostCompactRows rows, on every device.
inline constexpr std::int64_t kMostCompactRows = 32;
void MultiplyCompact(cudaStream_t stream, const CompactRows& w, const ProductOperands& operands);

// At most kMostRingRows rows, on Hopper, where 64 divides the columns (compact_ring.cuh). kSwiGlu
// in one step, where w has the rows of gate and up, each a multiple of 16.
inline constexpr std::int64_t kMostRingRows = 64;
bool CompactRingCanServe(const CompactRows& w);
void MultiplyCompactRing(cudaStream_t stream, const CompactRows& w,
                         const ProductOperands& operands);

}  // namespace banyan::cuda
