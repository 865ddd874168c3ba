// Weights on the device: float32 or bf16 rows, padded with zeros to 16 columns and the matrix to 16
// rows; or quantised as the file has them (quantised_matrix.h); or in 8 bits for products. They
// come through two pinned buffers that several threads fill with the file's bytes; conversions are
// made on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/weights/quantised_matrix.h"
#include "kernels/kernels.h"
#include "kernels/random_weights.h"

namespace banyan::cuda {

enum class WeightForm {
  kF32,
  kBF16,
  kQuantised,  // as the file has them (quantised_matrix.h)
  kInt8,       // 8 bits and a scale per row (kernels/int8.h), for products alone
};

class DeviceMatrix : public Matrix {
 public:
  WeightForm form = WeightForm::kF32;
  std::int64_t stride = 0;       // elements from row to row
  std::int64_t padded_rows = 0;  // the last ones zero
  DeviceMemory memory;
  bool fresh = false;  // kernels of the stream rewrite it: no fetching before they end
  std::vector<QuantisedRows> quantised;  // kQuantised: all rows in order, their tiles in `memory`
  float* scales = nullptr;               // kInt8: [padded_rows], in `memory` behind the codes
};

// Parameters, padded with zeros like a row of activations so that kernels can read whole vectors.
class DeviceVector : public Vector {
 public:
  DeviceMemory memory;
};
// Null for null.
inline const float* Values(const Vector* vector) {
  if (vector == nullptr) return nullptr;
  return static_cast<const DeviceVector*>(vector)->memory.As<float>();
}

struct MatrixSource {
  std::span<const HostTensor* const> parts;
  std::span<const std::int32_t> row_order;  // see Kernels::LoadMatrix
};

class MatrixLoader {
 public:
  MatrixLoader(std::shared_ptr<const Device> device, ThreadPool& pool, Staging& staging)
      : device_(std::move(device)), pool_(pool), staging_(staging) {}

  // `form` is a wish: kQuantised becomes kBF16 where a part's type has no such form, or where
  // parts do not begin at multiples of 16 rows. Does not wait for the last copies.
  std::shared_ptr<DeviceMatrix> Load(const MatrixSource& source, WeightForm form);

 private:
  struct SourceRow {
    const HostTensor* tensor = nullptr;
    std::int64_t row = 0;
  };
  // Rows [begin, end) of the matrix, all of one tensor.
  struct Run {
    const HostTensor* tensor = nullptr;
    std::int64_t begin = 0, end = 0;
  };

  static std::vector<SourceRow> OrderedRows(const MatrixSource& source);
  static std::vector<Run> RunsOf(std::span<const SourceRow> rows);
  static std::vector<QuantisedRows> QuantisedRowsOf(std::span<const Run> runs,
                                                    std::int64_t columns);
  void LoadRun(const Run& run, DeviceMatrix& matrix);
  void LoadOnHost(const Run& run, DeviceMatrix& matrix);
  // Copies the stored bytes of rows [begin, end) to pinned memory, one after the other.
  std::byte* Stage(std::int64_t begin, std::int64_t end);

  std::shared_ptr<const Device> device_;
  ThreadPool& pool_;
  Staging& staging_;
  DeviceMemory raw_;             // stored rows before their conversion
  std::vector<SourceRow> rows_;  // of the matrix being loaded
};

// Random weights made on the device (kernels/random_weights.h).

// The same matrix as loading the same values from the host gives, in every bit.
std::shared_ptr<DeviceMatrix> MakeRandomMatrix(const std::shared_ptr<const Device>& device,
                                               const RandomWeights& weights, WeightForm form);

}  // namespace banyan::cuda
