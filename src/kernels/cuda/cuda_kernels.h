// The cuda backend: one GPU (sm_80 or newer), one stream. precision f32: float32 throughout, plain
// kernels, any head size. precision mixed: bf16 weights and products with float32 sums, a float32
// residual stream and logits, 16-bit or 8-bit KV, heads of at most 256 values.
#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace banyan {

// On the GPU of KernelOptions::ordinal. Throws kUnsupported where it is not found or the options
// are not supported.
std::unique_ptr<Kernels> MakeCudaKernels(const KernelOptions& options);

// Bytes of this GPU; -1: of the current one.
std::int64_t FreeCudaMemory(int ordinal);

// At least 1. Throws kUnsupported where none is found.
int CountCudaDevices();

}  // namespace banyan
