// bf16 products of few rows: the weights are streamed once, at the speed of memory, through rings
// in shared memory. Bits are those of MultiplyBF16 (the same chain of matrix instructions over k,
// with the rows of x on its 16-row side); like every algorithm it serves only after comparison.
//
// What the speed needs, on an H200 (132 multiprocessors, 4.8 TB/s, about 1 us from request to data
// under load): 36 bytes a nanosecond for each multiprocessor, so about 36 KB must be under way in
// each at any time. No output is split over k, so a product of 4096 outputs has 256 tiles of 16:
// two a multiprocessor, each block keeping 7 stages of 8 KB under way.
#pragma once

#include "kernels/cuda/product_kernels.h"

namespace banyan::cuda {

constexpr std::int64_t kMostFewRows = 16;
enum class FewRowsVariant {
  kNarrowTiles,  // 16 outputs a block, at most 8 rows
  kWideTiles,    // 32 outputs a block: x is read half as often
};

constexpr std::int64_t MostRows(FewRowsVariant variant) {
  return variant == FewRowsVariant::kNarrowTiles ? 8 : kMostFewRows;
}

// REQUIRES: 1 <= rows <= MostRows(variant).
void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, FewRowsVariant variant);

}  // namespace banyan::cuda
