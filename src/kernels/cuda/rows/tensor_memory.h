// What lies behind a Tensor: float32 rows, and in mixed precision a bf16 form of the leading rows
// that some operation wrote for a product to read. Rows live in exactly one of the two forms, so
// that nothing is rounded twice or copied without need. Products in 8 bits read codes of the bf16
// values, which are a copy beside them until something writes the rows.
//
//   rows   0 ........ bf16_rows ........ rows
//          | bf16     | float32               |
//
// Tensors of fewer columns may use the memory (Tensor::Narrow). What was written with one width is
// lost when another is written.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Elements from row to row, of both forms; the padding is zero in the form that products read.
inline std::int64_t Stride(std::int64_t columns) { return (columns + 15) / 16 * 16; }

struct TensorMemory {
  std::shared_ptr<const Device> device;
  std::int64_t rows = 0, columns = 0;
  std::int64_t width = 0;       // columns of what was written last
  bool several_widths = false;  // so no padding is zero by itself
  DeviceMemory float32;         // float32 [rows, Stride(columns)]
  DeviceMemory bf16;            // bf16, made at the first use
  std::int64_t bf16_rows = 0;
  DeviceMemory codes;  // int8 [rows, CodeStride(columns)], then scales; made at the first use
  std::int64_t int8_rows = 0;  // leading rows whose codes are there
};

// What recorded operations do to tensors on the host's side: the forms that they leave.
struct Recording {
  std::map<TensorMemory*, std::int64_t> bf16_rows, int8_rows, widths;

  void Repeat() const {
    for (const auto& [memory, columns] : widths) memory->width = columns;
    for (const auto& [memory, rows] : bf16_rows) memory->bf16_rows = rows;
    for (const auto& [memory, rows] : int8_rows) memory->int8_rows = rows;
  }
};

Tensor NewTensor(const std::shared_ptr<const Device>& device, std::int64_t rows,
                 std::int64_t columns);

// Whether all of the tensor's rows live in bf16.
bool IsBf16(const Tensor& tensor);
// The tensor's rows as float32, to read or to update.
float* Float32(const Tensor& tensor);
// The same for a writer of all of the tensor's rows: what they held is not kept.
float* Float32ForWriting(const Tensor& tensor);
// The tensor's rows as bf16, to read.
const __nv_bfloat16* Bf16(const Tensor& tensor);
// The same for a writer of all of the tensor's rows.
__nv_bfloat16* Bf16ForWriting(const Tensor& tensor);
// To change rows where they are. REQUIRES: IsBf16.
__nv_bfloat16* Bf16ForUpdate(const Tensor& tensor);
// The codes of the tensor's bf16 rows, to read.
Int8Rows Codes(const Tensor& tensor);
// The same for a writer of all rows, who writes them as bf16 as well (after Bf16ForWriting).
Int8Rows CodesForWriting(const Tensor& tensor);
// That writer left the bf16 rows alone.
void DropCodes(const Tensor& tensor);
// See Kernels::Gather: within a device or from the memory of others.
void GatherColumns(cudaStream_t stream, std::span<const ColumnPiece> pieces, Tensor& out);
// As Kernels::Clear, in the form that products read.
void ClearRows(cudaStream_t stream, Tensor& x, Precision precision);
// As Kernels::Download.
void DownloadRows(const Device& device, const Tensor& x, std::int64_t row, std::span<float> out);
// Where an operation leaves all rows of what products read: bf16 when mixed.
RowOutput OutputForProducts(const Tensor& out, Precision precision);

}  // namespace banyan::cuda
