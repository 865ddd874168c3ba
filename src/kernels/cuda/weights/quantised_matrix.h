// Quantised weights that stay quantised on the device: 4- or 8-bit codes with their scales, laid
// out for the matrix instruction. A weight is the bf16 rounding of its dequantised value, bit for
// bit what converting at load gives, so products have the same bits either way.
//
// A tile is 16 rows by 32 (8-bit codes) or 64 (4-bit) columns. Its codes are 512 bytes: 16 for each
// lane of a warp, in the order of the instruction's fragments (quantised_form.cuh). Its scales are
// eight records, one for each pair of rows (g, g + 8). Tiles of 16 rows follow each other along the
// columns, so that a warp reads its weights in one stream.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "kernels/cuda/rows/row_kernels.h"
#include "tensor/host_tensor.h"

namespace banyan::cuda {

enum class QuantisedForm {
  kQ8_0,    // 8-bit codes, a half scale per 32:                        8.5 bits a weight
  kQ4_0,    // 4-bit codes, a half scale per 32:                        4.5
  kQ4_K,    // 4-bit codes, 6-bit scale and minimum per 32:             5
  kQ6_K,    // 8-bit codes, 8-bit scale per 16:                         9
  kMXFP4,   // 4-bit floats, an exponent per 32:                       4.25
  kQ4_1,    // 4-bit codes, a half scale and offset per 32:             5
  kQ5_K,    // 5-bit codes, 6-bit scale and minimum per 32:             6
  kIQ4_NL,  // 4-bit names of 16 numbers, a half scale per 32:         4.5
};
// Nothing: weights of this type are converted.
std::optional<QuantisedForm> QuantisedFormOf(DType type);

inline constexpr int kTileRows = 16, kTileBytes = 512;

// Rows [first_row, first_row + padded_rows) of a matrix.
struct QuantisedRows {
  QuantisedForm form = QuantisedForm::kQ8_0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0, padded_rows = 0;  // padded to 16, with zeros
  std::int64_t columns = 0;                // a multiple of 32
  std::uint8_t* codes = nullptr;           // [padded_rows / 16, tiles, 512]
  std::uint8_t* records = nullptr;         // [padded_rows / 16, tiles, 8, RecordBytes(form)]
};

int TileColumns(QuantisedForm form);
int RecordBytes(QuantisedForm form);
inline std::int64_t TilesOf(const QuantisedRows& w) {  // along the columns
  return (w.columns + TileColumns(w.form) - 1) / TileColumns(w.form);
}
inline std::int64_t CodeBytes(const QuantisedRows& w) {
  return w.padded_rows / kTileRows * TilesOf(w) * kTileBytes;
}
inline std::int64_t RecordsBytes(const QuantisedRows& w) {
  return w.padded_rows / kTileRows * TilesOf(w) * 8 * RecordBytes(w.form);
}

// Stored rows [begin, begin + count) as a file has them, one after the other in `raw`, → tiles.
// REQUIRES: begin is a multiple of 16, and so is count unless it ends at w.rows.
void PackRows(cudaStream_t stream, const void* raw, std::int64_t begin, std::int64_t count,
              const QuantisedRows& w);

// Stored rows of F32, F16 or a type with a quantised form → bf16 rows of `stride` elements, the
// rest of a row zero. `count` rows.
struct StoredRows {
  const void* raw = nullptr;
  DType type = DType::kF32;
  std::int64_t count = 0, columns = 0;
};
bool ConvertsOnDevice(DType type);
void ConvertRows(cudaStream_t stream, const StoredRows& rows, std::int64_t stride,
                 __nv_bfloat16* out);

// Tiles → bf16 rows of `stride` elements, from `out` on; padding rows are zero.
void UnpackRows(cudaStream_t stream, const QuantisedRows& w, std::int64_t stride,
                __nv_bfloat16* out);

// out[r] = row tokens[r] of w, for those that lie in it.
void EmbedQuantisedRows(cudaStream_t stream, const std::int32_t* tokens, const QuantisedRows& w,
                        RowLayout range, float* out);

}  // namespace banyan::cuda
