#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/coded_store.cuh"

namespace banyan::cuda {
namespace {

constexpr int kPlainThreads = 128;

__global__ void CodedPlainKernel(const std::int8_t* x, const std::int8_t* w, ProductShape shape,
                                 CodedEnd end) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kPlainThreads + threadIdx.x;
  if (n >= shape.outputs) return;
  for (std::int64_t r = blockIdx.y; r < shape.rows; r += gridDim.y) {
    const auto* a = reinterpret_cast<const char4*>(x + r * shape.inner);
    const auto* b = reinterpret_cast<const char4*>(w + n * shape.inner);
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < shape.inner / 4; ++k) {
      const char4 p = a[k], q = b[k];
      sum += static_cast<int>(p.x) * q.x + static_cast<int>(p.y) * q.y +
             static_cast<int>(p.z) * q.z + static_cast<int>(p.w) * q.w;
    }
    StoreCodedSum(end, r * shape.out_stride + n, n, end.x_scales[r], sum);
  }
}

}  // namespace

void MultiplyCodedPlain(cudaStream_t stream, const CodedOperands& operands) {
  const ProductShape& shape = operands.shape;
  const auto across = static_cast<unsigned>((shape.outputs + kPlainThreads - 1) / kPlainThreads);
  const auto down = static_cast<unsigned>(shape.rows < 65535 ? shape.rows : 65535);
  CodedPlainKernel<<<dim3(across, down), kPlainThreads, 0, stream>>>(operands.x, operands.w, shape,
                                                                     EndOf(operands));
  CheckLaunch("product of codes");
}

}  // namespace banyan::cuda
