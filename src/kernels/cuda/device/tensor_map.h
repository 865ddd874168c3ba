// Tensor maps: descriptions of matrices for Hopper's copy engine (TMA), which then copies blocks of
// them to shared memory (CopyBoxes and CopyRows, hopper.cuh).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace banyan::cuda {

constexpr int kBoxColumns = 64;       // 128 bytes a row
constexpr int kInt8BoxColumns = 128;  // of 8-bit codes

// Whether the driver can make them.
bool HasTensorMaps();

// bf16 [rows, columns] without gaps, seen as [columns / 64, rows, 64]: a copy takes `boxes` boxes
// of 64 columns, each of `box_rows` rows. A box lies in shared memory (aligned to 1024 bytes) row
// after row; the 16-byte pieces of its row r change places (piece ^ r % 8), so that matrix loads of
// eight rows meet no conflict. What of a copy is outside the matrix becomes zero. REQUIRES: columns
// % 64 == 0, box_rows % 8 == 0 and at most 256, a 16-byte aligned matrix.
CUtensorMap MapOfMatrix(const __nv_bfloat16* matrix, std::int64_t rows, std::int64_t columns,
                        int box_rows, int boxes);
// The same of 8-bit codes with boxes of 128 columns. REQUIRES: columns % 128 == 0.
CUtensorMap MapOfInt8(const std::int8_t* matrix, std::int64_t rows, std::int64_t columns,
                      int box_rows, int boxes);

// Rows of bytes without gaps: a copy takes `box_bytes` of `box_rows` rows, which lie in shared
// memory (aligned to 128 bytes) one after the other. What of a copy is outside becomes zero.
// REQUIRES: HasTensorMaps, 16 divides all bytes, box_bytes at most 2048.
CUtensorMap MapOfRows(const std::uint8_t* matrix, std::int64_t rows, std::int64_t row_bytes,
                      int box_rows, int box_bytes);

}  // namespace banyan::cuda
