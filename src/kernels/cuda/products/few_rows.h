// bf16 products of few rows on Hopper: the weights are streamed once, at the speed of memory.
// Weights and rows come through one ring in shared memory, filled by the copy engine at the word of
// one thread. Bits are those of MultiplyBF16 (the same chain of matrix instructions over k); like
// every way it serves only after comparison.
//
// What the speed needs, on an H200 (132 multiprocessors, 4.8 TB/s, 1 to 2 us from request to data
// under load): 36 bytes a nanosecond for each multiprocessor, so 40 to 70 KB under way in each at
// any time. No output is split over k, so a block multiplies 16 outputs a warp, and the time of a
// chain of matrix instructions over all of k (33 cycles for 16 of it) must stay below that of the
// copies: loads from shared memory run a group of steps ahead, and one warp does nothing but ask
// for copies. It asks for the first of them before the kernels before it are done.
#pragma once

#include "kernels/cuda/products/product_kernels.h"

namespace banyan::cuda {

constexpr std::int64_t kMostFewRows = 16;

// How much of a multiprocessor's shared memory the ring takes.
enum class RingSize {
  kHalf,  // the next product of few rows finds room beside it and fetches its first weights early
  kMost,  // more bytes are under way
};
constexpr RingSize kRingSizes[] = {RingSize::kHalf, RingSize::kMost};
constexpr const char* kRingNames[] = {"half", "most"};

// At most kMostFewRows rows, `inner` a multiple of 64, and a Hopper GPU with code made for it.
bool FewRowsCanServe(const ProductShape& shape);
// REQUIRES: FewRowsCanServe. SwiGLU takes two steps (see GateAndUp).
void MultiplyFewRows(cudaStream_t stream, const ProductOperands& operands, RingSize ring);

}  // namespace banyan::cuda
