// Rows in 8 bits (kernels/eight_bits.h), made of bf16 rows.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows/row_kernels.h"

namespace banyan::cuda {

// When the kernel that reads the codes may begin.
enum class CodeReader {
  kWaits,  // it waits for this one (launch.cuh) and may begin early
  kLater,  // it takes them for constants
};

void CodeRows(cudaStream_t stream, const __nv_bfloat16* x, RowLayout range, CodeReader reader,
              RowCodes out);
// SwiGLU of bf16 rows (gate, then up, x_stride elements a row) to bf16 rows, and these to codes:
// the bits of SwiGluRows and CodeRows. range is of the outputs.
void SwiGluAndCodeRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride,
                       RowLayout range, __nv_bfloat16* out, RowCodes codes);

}  // namespace banyan::cuda
