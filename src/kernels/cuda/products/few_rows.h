// bf16 products of few rows: the weights are streamed once, at the speed of memory, through a ring
// in shared memory. Bits are those of MultiplyBF16 (the same chain of matrix instructions over k);
// like every way it serves only after comparison.
#pragma once

#include <vector>

#include "kernels/cuda/products/product_kernels.h"

namespace banyan::cuda {

constexpr std::int64_t kMostFewRows = 16;
enum class FewRowsVariant {
  k16Outputs,  // 16 outputs a block, at most 8 rows
  k32Outputs,  // 32 outputs a block: x is read half as often
  kHalfRing,   // Hopper's copy engine; half of the shared memory, see few_rows_ring.h
  kMostRing,   // the same, most of it
};
constexpr FewRowsVariant kFewRowsVariants[] = {
    FewRowsVariant::k16Outputs, FewRowsVariant::k32Outputs, FewRowsVariant::kHalfRing,
    FewRowsVariant::kMostRing};
constexpr const char* kFewRowsNames[] = {"16 outputs", "32 outputs", "half", "most"};

// Whether the variant can serve such a product on the current device.
bool FewRowsCanServe(FewRowsVariant variant, const ProductShape& shape);
// Those worth trying: rings where they can serve, tiles elsewhere.
std::vector<FewRowsVariant> FewRowsVariantsFor(const ProductShape& shape);

// REQUIRES: FewRowsCanServe.
void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, FewRowsVariant variant);

}  // namespace banyan::cuda
