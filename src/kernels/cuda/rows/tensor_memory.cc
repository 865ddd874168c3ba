// Tensors on the device: their memory in float32, bf16 and int8, and which of them is up to date.
#include "kernels/cuda/rows/tensor_memory.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace banyan::cuda {
namespace {

TensorMemory& Of(const Tensor& tensor) { return *static_cast<TensorMemory*>(tensor.memory.get()); }

void SetInt8Rows(TensorMemory& memory, std::int64_t rows) {
  if (memory.codes.bytes() == 0) return;
  memory.int8_rows = rows;
  if (memory.device->recording != nullptr) memory.device->recording->int8_rows[&memory] = rows;
}

void SetBf16Rows(TensorMemory& memory, std::int64_t rows) {
  memory.bf16_rows = rows;
  if (memory.device->recording != nullptr) memory.device->recording->bf16_rows[&memory] = rows;
}

void MakeNarrow(TensorMemory& memory) {
  if (memory.bf16.bytes() > 0) return;
  memory.bf16 =
      DeviceMemory(memory.device, memory.rows * Stride(memory.columns) * 2, "bf16 activations");
  memory.bf16.Zero();
}

void MakeCodes(TensorMemory& memory) {
  if (memory.codes.bytes() > 0) return;
  memory.codes = DeviceMemory(memory.device, memory.rows * (CodeStride(memory.columns) + 4),
                              "8-bit activations");
}

Int8Rows CodesIn(const TensorMemory& memory) {
  auto* codes = memory.codes.As<std::int8_t>();
  return {codes, reinterpret_cast<float*>(codes + memory.rows * CodeStride(memory.columns))};
}

// Rows of another width than what is there are about to be written, all of them.
void SetWidth(TensorMemory& memory, const Tensor& tensor) {
  if (tensor.columns == memory.width) return;
  memory.several_widths = true;
  memory.width = tensor.columns;
  if (memory.device->recording != nullptr) memory.device->recording->widths[&memory] = memory.width;
  SetBf16Rows(memory, 0);
  SetInt8Rows(memory, 0);
}

// Zeros where products read the padding of the tensor's rows, which are about to be written.
void ClearPadding(const TensorMemory& memory, const Tensor& tensor, const DeviceMemory& form,
                  std::int64_t element_bytes) {
  const bool padded = tensor.columns != Stride(tensor.columns) && tensor.rows > 0;
  if (!memory.several_widths || !padded) return;
  const auto stride = static_cast<size_t>(Stride(tensor.columns) * element_bytes);
  const auto used = static_cast<size_t>(tensor.columns * element_bytes);
  Check(cudaMemset2DAsync(form.As<std::byte>() + used, stride, 0, stride - used,
                          static_cast<size_t>(tensor.rows), memory.device->stream),
        "clear");
}

// Moves the bf16 rows from `begin` on to float32.
void ToFloat32(TensorMemory& memory, std::int64_t begin) {
  if (memory.bf16_rows <= begin) return;
  const std::int64_t stride = Stride(memory.width);
  const RowLayout range{memory.bf16_rows - begin, memory.width, stride};
  RowsToFloat32(memory.device->stream, memory.bf16.As<__nv_bfloat16>() + begin * stride, range,
                memory.float32.As<float>() + begin * stride);
  SetBf16Rows(memory, begin);
}

}  // namespace

Tensor NewTensor(const std::shared_ptr<const Device>& device, std::int64_t rows,
                 std::int64_t columns) {
  BANYAN_CHECK(rows >= 0 && columns >= 0);
  constexpr double kMost = 1e15;
  if (static_cast<double>(rows) * static_cast<double>(Stride(columns)) * 4 > kMost) {
    Throw(ErrorKind::kLimit, "cuda: no memory for activations: {} rows x {} columns", rows,
          columns);
  }
  auto memory = std::make_shared<TensorMemory>();
  memory->device = device;
  memory->rows = rows;
  memory->columns = memory->width = columns;
  memory->float32 = DeviceMemory(device, rows * Stride(columns) * 4, "activations");
  memory->float32.Zero();
  return Tensor{memory, rows, columns};
}

bool IsBf16(const Tensor& tensor) { return tensor.rows > 0 && Of(tensor).bf16_rows >= tensor.rows; }

float* Float32(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  BANYAN_CHECK(tensor.columns == memory.width || memory.bf16_rows == 0);
  ToFloat32(memory, 0);
  SetInt8Rows(memory, 0);
  return memory.float32.As<float>();
}

float* Float32ForWriting(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  SetWidth(memory, tensor);
  ToFloat32(memory, tensor.rows);
  SetBf16Rows(memory, 0);
  SetInt8Rows(memory, 0);
  ClearPadding(memory, tensor, memory.float32, 4);
  return memory.float32.As<float>();
}

const __nv_bfloat16* Bf16(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeNarrow(memory);
  BANYAN_CHECK(tensor.columns == memory.width || memory.bf16_rows == 0);
  // float32 stays the form of these rows: their bf16 copy is for this reader alone.
  const std::int64_t begin = memory.bf16_rows;
  if (begin < tensor.rows) {
    if (begin == 0) ClearPadding(memory, tensor, memory.bf16, 2);
    const std::int64_t stride = Stride(tensor.columns);
    const RowLayout range{tensor.rows - begin, tensor.columns, stride};
    RowsToBf16(memory.device->stream, memory.float32.As<float>() + begin * stride, range,
               memory.bf16.As<__nv_bfloat16>() + begin * stride);
  }
  return memory.bf16.As<__nv_bfloat16>();
}

__nv_bfloat16* Bf16ForWriting(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeNarrow(memory);
  SetWidth(memory, tensor);
  SetBf16Rows(memory, std::max(memory.bf16_rows, tensor.rows));
  SetInt8Rows(memory, 0);
  ClearPadding(memory, tensor, memory.bf16, 2);
  return memory.bf16.As<__nv_bfloat16>();
}

__nv_bfloat16* Bf16ForUpdate(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  BANYAN_CHECK(memory.bf16_rows >= tensor.rows && tensor.columns == memory.width);
  SetInt8Rows(memory, 0);
  return memory.bf16.As<__nv_bfloat16>();
}

Int8Rows Codes(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeCodes(memory);
  if (memory.int8_rows < tensor.rows) {
    const __nv_bfloat16* rows = Bf16(tensor);
    QuantizeRows(memory.device->stream, rows, {tensor.rows, tensor.columns, Stride(tensor.columns)},
                 CodeReader::kWaits, CodesIn(memory));
    SetInt8Rows(memory, tensor.rows);
  }
  return CodesIn(memory);
}

Int8Rows CodesForWriting(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeCodes(memory);
  SetInt8Rows(memory, tensor.rows);
  return CodesIn(memory);
}

void DropCodes(const Tensor& tensor) { SetInt8Rows(Of(tensor), 0); }

void GatherColumns(cudaStream_t stream, std::span<const ColumnPiece> pieces, Tensor& out) {
  if (out.rows == 0) return;
  const bool bf16 = IsBf16(pieces.front().x);
  const std::int64_t element = bf16 ? 2 : 4;
  std::vector<ColumnBytes> copies;
  auto* target = bf16 ? reinterpret_cast<std::byte*>(Bf16ForWriting(out))
                      : reinterpret_cast<std::byte*>(Float32ForWriting(out));
  for (const auto& [x, columns] : pieces) {
    BANYAN_CHECK(x.rows == out.rows && columns.from + columns.count <= x.columns &&
                 columns.to + columns.count <= out.columns);
    // As the rows are: nothing may be launched on the device that they belong to.
    const TensorMemory& memory = Of(x);
    BANYAN_CHECK(x.columns == memory.width);
    BANYAN_CHECK(bf16 ? memory.bf16_rows >= x.rows : memory.bf16_rows == 0);
    const auto* source = (bf16 ? memory.bf16 : memory.float32).As<std::byte>();
    copies.push_back({source + columns.from * element, Stride(x.columns) * element,
                      columns.to * element, columns.count * element});
  }
  CopyColumnBytes(stream, copies, out.rows, target, Stride(out.columns) * element);
}

void ClearRows(cudaStream_t stream, Tensor& x, Precision precision) {
  const auto elements = static_cast<size_t>(x.rows * Stride(x.columns));
  if (precision == Precision::kMixed) {
    Check(cudaMemsetAsync(Bf16ForWriting(x), 0, elements * 2, stream), "clear");
  } else {
    Check(cudaMemsetAsync(Float32ForWriting(x), 0, elements * 4, stream), "clear");
  }
}

void DownloadRows(const Device& device, const Tensor& x, std::int64_t row, std::span<float> out) {
  const size_t columns = std::min(out.size(), static_cast<size_t>(x.columns));
  const size_t rows = columns > 0 ? out.size() / columns : 0;
  BANYAN_CHECK(row >= 0 && row + static_cast<std::int64_t>(rows) <= x.rows &&
               rows * columns == out.size());
  if (rows == 0) return;
  const auto stride = static_cast<size_t>(Stride(x.columns)) * sizeof(float);
  const float* source = Float32(x) + row * Stride(x.columns);
  Check(cudaMemcpy2DAsync(out.data(), columns * sizeof(float), source, stride,
                          columns * sizeof(float), rows, cudaMemcpyDeviceToHost, device.stream),
        "copy to the host");
  device.Synchronize();
}

RowOutput OutputForProducts(const Tensor& out, Precision precision) {
  if (precision == Precision::kMixed) return {nullptr, Bf16ForWriting(out)};
  return {Float32ForWriting(out), nullptr};
}

}  // namespace banyan::cuda
