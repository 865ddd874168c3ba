#include "kernels/cuda/rows/rope_table.h"

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void RopeTableKernel(RopeAngles angles, float* cosine, float* sine) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= angles.rows * angles.pairs) return;
  const float position = static_cast<float>(angles.positions[i / angles.pairs]);
  // The angle is a float32 product, as in the models' own code; its sine is taken in double.
  const float angle = __fmul_rn(position, angles.inverse_frequency[i % angles.pairs]);
  double s = 0.0, c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  cosine[i] = static_cast<float>(c * angles.scale);
  sine[i] = static_cast<float>(s * angles.scale);
}

}  // namespace

void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine) {
  const int count = angles.rows * angles.pairs;
  if (count == 0) return;
  RopeTableKernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(angles, cosine, sine);
  CheckLaunch("rope table");
}

}  // namespace banyan::cuda
