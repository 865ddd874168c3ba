// Loading of weights to the device (device_matrix.h).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/per_thread.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan::cuda {

namespace {

// A piece travels while the next one is being filled.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

std::int64_t StoredRowBytes(const HostTensor& tensor) {
  return static_cast<std::int64_t>(RowBytes(tensor.dtype, tensor.columns()));
}

std::int64_t Aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Whole groups of 16 rows, so that pieces of quantised weights are whole tiles.
std::int64_t PieceRows(std::int64_t row_bytes) {
  return std::max<std::int64_t>(kTileRows, kPieceBytes / row_bytes / kTileRows * kTileRows);
}

struct RowScratch {
  std::vector<float> values;  // of a row
};

// One row in the wanted form; the padding of `out` is already zero.
void WriteRow(const HostTensor& tensor, std::int64_t row, WeightForm form, std::byte* out) {
  const auto row_bytes = static_cast<size_t>(StoredRowBytes(tensor));
  const auto bytes = tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
  if (form == WeightForm::kBF16 && tensor.dtype == DType::kBF16) {
    std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  std::vector<float>& values = PerThread<RowScratch>::Get().values;
  values.resize(static_cast<size_t>(tensor.columns()));
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

std::vector<MatrixLoader::SourceRow> MatrixLoader::OrderedRows(const MatrixSource& source) {
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

std::vector<MatrixLoader::Run> MatrixLoader::RunsOf(std::span<const SourceRow> rows) {
  std::vector<Run> runs;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<std::int64_t>(r);
    if (runs.empty() || runs.back().tensor != rows[r].tensor) {
      runs.push_back({rows[r].tensor, row, row});
    }
    runs.back().end = row + 1;
  }
  return runs;
}

// The quantised rows of all runs, without memory; none when they cannot be kept so. Neighbours of
// one form become one part: one product.
std::vector<QuantisedRows> MatrixLoader::QuantisedRowsOf(std::span<const Run> runs,
                                                         std::int64_t columns) {
  std::vector<QuantisedRows> all;
  for (const Run& run : runs) {
    const std::optional<QuantisedForm> form = QuantisedFormOf(run.tensor->dtype);
    if (!form || run.begin % kTileRows != 0) return {};
    if (all.empty() || all.back().form != *form) {
      all.emplace_back();
      all.back().form = *form;
      all.back().first_row = run.begin;
      all.back().columns = columns;
    }
    QuantisedRows& rows = all.back();
    rows.rows = run.end - rows.first_row;
    rows.padded_rows = (rows.rows + kTileRows - 1) / kTileRows * kTileRows;
  }
  return all;
}

std::shared_ptr<DeviceMatrix> MatrixLoader::Load(const MatrixSource& source, WeightForm form) {
  BANYAN_CHECK(!source.parts.empty());
  auto matrix = std::make_shared<DeviceMatrix>();
  matrix->columns = source.parts.front()->columns();
  for (const HostTensor* part : source.parts) BANYAN_CHECK(part->columns() == matrix->columns);
  rows_ = OrderedRows(source);
  const std::vector<Run> runs = RunsOf(rows_);
  matrix->rows = static_cast<std::int64_t>(rows_.size());
  matrix->stride = Stride(matrix->columns);
  matrix->padded_rows = (matrix->rows + kTileRows - 1) / kTileRows * kTileRows;
  if (form == WeightForm::kQuantised) {
    matrix->quantised = QuantisedRowsOf(runs, matrix->columns);
    if (matrix->quantised.empty()) form = WeightForm::kBF16;
  }
  matrix->form = form;
  const std::int64_t row_bytes = matrix->stride * (form == WeightForm::kF32 ? 4 : 2);
  matrix->bytes = form == WeightForm::kQuantised ? 0 : row_bytes * matrix->padded_rows;
  for (const QuantisedRows& rows : matrix->quantised) {
    matrix->bytes += Aligned(CodeBytes(rows)) + Aligned(RecordsBytes(rows));
  }
  matrix->memory = DeviceMemory(device_, matrix->bytes, "weights");
  auto* memory = matrix->memory.As<std::uint8_t>();
  std::uint8_t* next = memory;
  for (QuantisedRows& rows : matrix->quantised) {
    rows.codes = next;
    rows.records = next + Aligned(CodeBytes(rows));
    next = rows.records + Aligned(RecordsBytes(rows));
  }
  if (form != WeightForm::kQuantised && matrix->padded_rows > matrix->rows) {
    Check(cudaMemsetAsync(memory + matrix->rows * row_bytes, 0,
                          static_cast<size_t>((matrix->padded_rows - matrix->rows) * row_bytes),
                          device_->stream),
          "clear");
  }
  for (const Run& run : runs) LoadRun(run, *matrix);
  return matrix;
}

std::byte* MatrixLoader::Stage(std::int64_t begin, std::int64_t end) {
  const std::int64_t row_bytes = StoredRowBytes(*rows_[static_cast<size_t>(begin)].tensor);
  std::byte* buffer = staging_.Reserve((end - begin) * row_bytes);
  pool_.ForEach(end - begin, [&](std::int64_t i, int) {
    const SourceRow& source = rows_[static_cast<size_t>(begin + i)];
    std::memcpy(buffer + i * row_bytes, source.tensor->bytes.data() + source.row * row_bytes,
                static_cast<size_t>(row_bytes));
  });
  return buffer;
}

void MatrixLoader::LoadRun(const Run& run, DeviceMatrix& matrix) {
  const DType type = run.tensor->dtype;
  const std::int64_t row_bytes = StoredRowBytes(*run.tensor);
  const bool as_stored =
      matrix.form == WeightForm::kBF16 && type == DType::kBF16 && matrix.columns == matrix.stride;
  const bool on_device = matrix.form != WeightForm::kF32 && ConvertsOnDevice(type);
  if (!as_stored && !on_device) return LoadOnHost(run, matrix);
  const std::int64_t piece = PieceRows(row_bytes);
  const cudaStream_t stream = device_->stream;
  for (std::int64_t begin = run.begin; begin < run.end; begin += piece) {
    const std::int64_t end = std::min(begin + piece, run.end), bytes = (end - begin) * row_bytes;
    Stage(begin, end);
    auto* rows = matrix.memory.As<__nv_bfloat16>() + begin * matrix.stride;
    if (as_stored) {
      staging_.Send(rows, bytes);
      continue;
    }
    if (raw_.bytes() < bytes) {
      raw_ = {};
      raw_ = DeviceMemory(device_, std::max(bytes, kPieceBytes), "weights as stored");
    }
    staging_.Send(raw_.As<void>(), bytes);
    if (matrix.form == WeightForm::kBF16) {
      ConvertRows(stream, {raw_.As<void>(), type, end - begin, matrix.columns}, matrix.stride,
                  rows);
    } else {
      const auto part = std::find_if(matrix.quantised.begin(), matrix.quantised.end(),
                                     [&](const QuantisedRows& candidate) {
                                       return begin < candidate.first_row + candidate.rows;
                                     });
      PackRows(stream, raw_.As<void>(), begin - part->first_row, end - begin, *part);
    }
  }
}

void MatrixLoader::LoadOnHost(const Run& run, DeviceMatrix& matrix) {
  const std::int64_t row_bytes = matrix.stride * (matrix.form == WeightForm::kF32 ? 4 : 2);
  const std::int64_t piece = PieceRows(row_bytes);
  for (std::int64_t begin = run.begin; begin < run.end; begin += piece) {
    const std::int64_t count = std::min(piece, run.end - begin);
    std::byte* buffer = staging_.Reserve(count * row_bytes);
    pool_.ForEach(count, [&](std::int64_t i, int) {
      std::byte* out = buffer + i * row_bytes;
      std::memset(out, 0, static_cast<size_t>(row_bytes));
      WriteRow(*run.tensor, rows_[static_cast<size_t>(begin + i)].row, matrix.form, out);
    });
    staging_.Send(matrix.memory.As<std::byte>() + begin * row_bytes, count * row_bytes);
  }
}

}  // namespace banyan::cuda
