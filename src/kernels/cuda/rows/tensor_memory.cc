#include "kernels/cuda/rows/tensor_memory.h"

#include <algorithm>

#include "base/error.h"

namespace banyan::cuda {
namespace {

TensorMemory& Of(const Tensor& tensor) { return *static_cast<TensorMemory*>(tensor.memory.get()); }

void SetNarrowRows(TensorMemory& memory, std::int64_t rows) {
  memory.narrow_rows = rows;
  if (memory.device->recording != nullptr) memory.device->recording->narrow_rows[&memory] = rows;
}

void MakeNarrow(TensorMemory& memory) {
  if (memory.narrow.bytes() > 0) return;
  memory.narrow =
      DeviceMemory(memory.device, memory.rows * Stride(memory.columns) * 2, "bf16 activations");
  memory.narrow.Zero();
}

// Moves the bf16 rows from `begin` on to float32.
void Widen(TensorMemory& memory, std::int64_t begin) {
  if (memory.narrow_rows <= begin) return;
  const std::int64_t stride = Stride(memory.columns);
  const RowRange range{memory.narrow_rows - begin, memory.columns, stride};
  WidenRows(memory.device->stream, memory.narrow.As<__nv_bfloat16>() + begin * stride, range,
            memory.wide.As<float>() + begin * stride);
  SetNarrowRows(memory, begin);
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
  memory->columns = columns;
  memory->wide = DeviceMemory(device, rows * Stride(columns) * 4, "activations");
  memory->wide.Zero();
  return Tensor{memory, rows, columns};
}

bool IsNarrow(const Tensor& tensor) {
  return tensor.rows > 0 && Of(tensor).narrow_rows >= tensor.rows;
}

float* Wide(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  Widen(memory, 0);
  return memory.wide.As<float>();
}

float* WideForWriting(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  Widen(memory, tensor.rows);
  SetNarrowRows(memory, 0);
  return memory.wide.As<float>();
}

const __nv_bfloat16* Narrow(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeNarrow(memory);
  // float32 stays the form of these rows: their bf16 copy is for this reader alone.
  const std::int64_t begin = memory.narrow_rows;
  if (begin < tensor.rows) {
    const std::int64_t stride = Stride(memory.columns);
    const RowRange range{tensor.rows - begin, memory.columns, stride};
    NarrowRows(memory.device->stream, memory.wide.As<float>() + begin * stride, range,
               memory.narrow.As<__nv_bfloat16>() + begin * stride);
  }
  return memory.narrow.As<__nv_bfloat16>();
}

__nv_bfloat16* NarrowForWriting(const Tensor& tensor) {
  TensorMemory& memory = Of(tensor);
  MakeNarrow(memory);
  SetNarrowRows(memory, std::max(memory.narrow_rows, tensor.rows));
  return memory.narrow.As<__nv_bfloat16>();
}

RowOutput OutputForProducts(const Tensor& out, Precision precision) {
  if (precision == Precision::kMixed) return {nullptr, NarrowForWriting(out)};
  return {WideForWriting(out), nullptr};
}

}  // namespace banyan::cuda
