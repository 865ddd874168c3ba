#include "kernels/cuda/device_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/tensor_memory.h"
#include "tensor/dequantize.h"
#include "tensor/float16.h"

namespace banyan::cuda {
namespace {

struct SourceRow {
  const HostTensor* tensor = nullptr;
  std::int64_t row = 0;
};

std::vector<SourceRow> OrderedRows(const MatrixSource& source) {
  std::vector<SourceRow> stacked;
  for (const HostTensor* part : source.parts) {
    for (std::int64_t r = 0; r < part->rows(); ++r) stacked.push_back({part, r});
  }
  if (source.row_order.empty()) return stacked;
  std::vector<SourceRow> ordered;
  for (const std::int32_t row : source.row_order) {
    BANYAN_CHECK(row >= 0 && static_cast<size_t>(row) < stacked.size());
    ordered.push_back(stacked[static_cast<size_t>(row)]);
  }
  return ordered;
}

// One row in the wanted form; the padding of `out` is already zero.
void WriteRow(const SourceRow& source, WeightForm form, std::byte* out) {
  const HostTensor& tensor = *source.tensor;
  const std::int64_t columns = tensor.columns();
  const size_t row_bytes = RowBytes(tensor.dtype, columns);
  const auto bytes = tensor.bytes.subspan(static_cast<size_t>(source.row) * row_bytes, row_bytes);
  if (form == WeightForm::kBF16 && tensor.dtype == DType::kBF16) {
    std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  thread_local std::vector<float> values;
  values.resize(static_cast<size_t>(columns));
  Dequantize(tensor.dtype, bytes, values);
  if (form == WeightForm::kF32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t c = 0; c < values.size(); ++c) {
    const std::uint16_t half = FloatToBF16(values[c]);
    std::memcpy(out + 2 * c, &half, 2);
  }
}

}  // namespace

std::shared_ptr<DeviceMatrix> LoadDeviceMatrix(const std::shared_ptr<const Device>& device,
                                               const MatrixSource& source, WeightForm form,
                                               ThreadPool& pool, Staging& staging) {
  BANYAN_CHECK(!source.parts.empty());
  auto matrix = std::make_shared<DeviceMatrix>();
  matrix->columns = source.parts.front()->columns();
  for (const HostTensor* part : source.parts) BANYAN_CHECK(part->columns() == matrix->columns);
  const std::vector<SourceRow> rows = OrderedRows(source);
  matrix->rows = static_cast<std::int64_t>(rows.size());
  matrix->form = form;
  matrix->stride = Stride(matrix->columns);
  matrix->padded_rows = (matrix->rows + 15) / 16 * 16;
  const std::int64_t row_bytes = matrix->stride * (form == WeightForm::kF32 ? 4 : 2);
  matrix->bytes = row_bytes * matrix->padded_rows;
  matrix->memory = DeviceMemory(device, matrix->bytes, "weights");
  // Pieces of about 16 MiB, so that filling one overlaps with copying the other.
  const std::int64_t piece = std::max<std::int64_t>(1, (std::int64_t{16} << 20) / row_bytes);
  for (std::int64_t begin = 0; begin < matrix->padded_rows; begin += piece) {
    const std::int64_t count = std::min(piece, matrix->padded_rows - begin);
    std::byte* buffer = staging.Reserve(count * row_bytes);
    pool.ForEach(count, [&](std::int64_t i, int) {
      std::byte* out = buffer + i * row_bytes;
      std::memset(out, 0, static_cast<size_t>(row_bytes));
      if (begin + i < matrix->rows) WriteRow(rows[static_cast<size_t>(begin + i)], form, out);
    });
    staging.Send(matrix->memory.As<std::byte>() + begin * row_bytes, count * row_bytes);
  }
  return matrix;
}

}  // namespace banyan::cuda
