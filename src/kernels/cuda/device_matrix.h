// Weights on the device: float32 or bf16, row-major, rows padded with zeros to 16 columns and the
// matrix to 16 rows. Compact residency of quantised weights would be one more form here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cuda/staging.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

enum class WeightForm { kF32, kBF16 };

class DeviceMatrix : public Matrix {
 public:
  WeightForm form = WeightForm::kF32;
  std::int64_t stride = 0;       // elements from row to row
  std::int64_t padded_rows = 0;  // the last ones zero
  DeviceMemory memory;
};

struct MatrixSource {
  std::span<const HostTensor* const> parts;
  std::span<const std::int32_t> row_order;  // see Kernels::LoadMatrix
};

std::shared_ptr<DeviceMatrix> LoadDeviceMatrix(const std::shared_ptr<const Device>& device,
                                               const MatrixSource& source, WeightForm form,
                                               ThreadPool& pool, Staging& staging);

}  // namespace banyan::cuda
