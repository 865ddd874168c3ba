// Random weights made on the device (MakeRandomMatrix, device_matrix.h).
#include <cuda_bf16.h>

#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

struct Target {
  std::int64_t padded_rows = 0;
  std::int64_t stride = 0;  // multiple of kRandomColumns
};

__device__ void Store(const float (&values)[kRandomColumns], float* out) {
  *reinterpret_cast<float4*>(out) = make_float4(values[0], values[1], values[2], values[3]);
}
__device__ void Store(const float (&values)[kRandomColumns], __nv_bfloat16* out) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(values[0], values[1]);
  const __nv_bfloat162 high = __floats2bfloat162_rn(values[2], values[3]);
  uint2 both;
  both.x = *reinterpret_cast<const unsigned*>(&low);
  both.y = *reinterpret_cast<const unsigned*>(&high);
  *reinterpret_cast<uint2*>(out) = both;
}

// One thread makes four neighbouring values at a time; those of the padding are zero.
template <typename Element>
__global__ void RandomMatrixKernel(RandomWeights weights, float unit, Target target, Element* out) {
  const std::int64_t fours_in_row = target.stride / kRandomColumns;
  const std::int64_t fours = target.padded_rows * fours_in_row;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < fours; i += step) {
    const std::int64_t row = i / fours_in_row;
    const std::int64_t column = i % fours_in_row * kRandomColumns;
    const std::uint64_t four = RandomFour(weights, row, column);
    float values[kRandomColumns];
    for (int v = 0; v < kRandomColumns; ++v) {
      const bool inside = row < weights.rows && column + v < weights.columns;
      // Float32 weights are rounded to bf16 as well: the values do not depend on the form.
      const __nv_bfloat16 value = __float2bfloat16_rn(RandomValue(four, v, unit));
      values[v] = inside ? __bfloat162float(value) : 0.0f;
    }
    Store(values, out + row * target.stride + column);
  }
}

}  // namespace

std::shared_ptr<DeviceMatrix> MakeRandomMatrix(const std::shared_ptr<const Device>& device,
                                               const RandomWeights& weights, WeightForm form) {
  auto matrix = std::make_shared<DeviceMatrix>();
  matrix->rows = weights.rows;
  matrix->columns = weights.columns;
  matrix->form = form;
  matrix->stride = Stride(matrix->columns);
  matrix->padded_rows = (matrix->rows + 15) / 16 * 16;
  const std::int64_t element_bytes = form == WeightForm::kF32 ? 4 : 2;
  matrix->bytes = matrix->stride * matrix->padded_rows * element_bytes;
  matrix->memory = DeviceMemory(device, matrix->bytes, "weights");
  const Target target{matrix->padded_rows, matrix->stride};
  const float unit = RandomUnit(weights);
  const unsigned blocks = static_cast<unsigned>(device->multiprocessors) * 16;
  if (form == WeightForm::kF32) {
    RandomMatrixKernel<<<blocks, kThreads, 0, device->stream>>>(weights, unit, target,
                                                                matrix->memory.As<float>());
  } else {
    RandomMatrixKernel<<<blocks, kThreads, 0, device->stream>>>(weights, unit, target,
                                                                matrix->memory.As<__nv_bfloat16>());
  }
  CheckLaunch("random weights");
  return matrix;
}

}  // namespace banyan::cuda
