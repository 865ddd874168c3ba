// Descriptions of rows of bytes for Hopper's copy engine (row_copy.cuh), as tensor_map.h has them
// of matrices.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace banyan::cuda {

// Rows without gaps: a copy takes `box_bytes` of `box_rows` rows, which lie in shared memory
// (aligned to 128 bytes) one after the other. What of a copy is outside becomes zero. REQUIRES:
// HasTensorMaps, 16 divides all bytes, box_bytes at most 2048.
CUtensorMap MapOfRows(const std::uint8_t* matrix, std::int64_t rows, std::int64_t row_bytes,
                      int box_rows, int box_bytes);

}  // namespace banyan::cuda
